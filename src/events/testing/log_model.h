#pragma once
// Random histories of an event log, held against a plain model. The seed is printed;
// NIMBUS_SEED=<n> runs one again.

#include "base/testing/manual_clock.h"
#include "events/check.h"
#include "events/log.h"
#include "events/sessions.h"
#include "events/states.h"
#include "events/testing/run.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace nimbus::events {

struct ModelEvent {
  std::string id;
  store::Seq seq = 0;
  store::Version version = 1;
  std::string json;
  std::optional<std::string> request;
  std::optional<std::string> author;
};

// What a log means, in the simplest words.
class Model {
 public:
  using Conversation = std::optional<std::string>;

  std::vector<Conversation> conversations() const {
    std::vector<Conversation> all;
    Conversation current;
    for (const ModelEvent& event : events) {
      if (event.request) current = event.request;
      all.push_back(current);
    }
    return all;
  }

  std::vector<std::string> trim(std::size_t count) {
    const std::vector<Conversation> of = conversations();
    std::vector<Conversation> going;
    for (std::size_t i = of.size(); i-- > 0;) {
      if (!of[i] || contains(going, of[i])) continue;
      if (going.size() == count) break;
      going.push_back(of[i]);
    }
    return remove(of, going);
  }

  std::size_t evict(std::size_t max, std::size_t batch, std::size_t appended) {
    if (max == 0 || events.size() <= max) return 0;
    const std::vector<Conversation> of = conversations();
    const std::vector<Conversation> staying(of.end() - static_cast<std::ptrdiff_t>(appended),
                                            of.end());
    std::vector<Conversation> going;
    std::size_t left = events.size();
    for (const Conversation& conversation : of) {
      if (left <= max - batch) break;
      if (contains(going, conversation) || contains(staying, conversation)) continue;
      going.push_back(conversation);
      left -= static_cast<std::size_t>(std::count(of.begin(), of.end(), conversation));
    }
    return remove(of, going).size();
  }

  ModelEvent* find(const std::string& id) {
    const auto found = std::find_if(events.begin(), events.end(),
                                    [&](const ModelEvent& event) { return event.id == id; });
    return found != events.end() ? &*found : nullptr;
  }

  std::vector<ModelEvent> events;
  store::Seq last_seq = 0;
  std::map<std::string, std::string> state;

 private:
  static bool contains(const std::vector<Conversation>& all, const Conversation& one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  }
  std::vector<std::string> remove(const std::vector<Conversation>& of,
                                  const std::vector<Conversation>& going) {
    std::vector<std::string> removed;
    std::vector<ModelEvent> kept;
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (contains(going, of[i])) {
        removed.push_back(events[i].id);
      } else {
        kept.push_back(events[i]);
      }
    }
    events = std::move(kept);
    return removed;
  }
};

// One history.
class History {
 public:
  History(store::Store& store, ManualClock& clock, std::uint64_t seed)
      : store_(store), clock_(clock), engine_(seed), random_(seed) {}

  void play(int steps) {
    NewSession session;
    session.id = name_.session.id;
    ASSERT_TRUE(run(sessions_.create(name_.session.app, name_.session.user, session)));
    if (below(2) == 0) {
      max_ = 5 + below(10);
      batch_ = 1 + below(max_ - 1);
      const auto changed = run(
          changeSettings(store_, name_.session.app,
                         fmt::format(R"({{"max_events_per_session":{},"eviction_batch_size":{}}})",
                                     max_, batch_)));
      ASSERT_TRUE(changed);
    }
    for (int step = 0; step < steps && !::testing::Test::HasFailure(); ++step) {
      clock_.advance(Millis(below(3)));
      doSomething();
      compare();
    }
    const auto issues = run(checkSession(store_, name_.session));
    ASSERT_TRUE(issues);
    EXPECT_TRUE(issues->empty()) << issues->front().toJson();
  }

 private:
  std::size_t below(std::size_t bound) { return engine_() % bound; }
  std::string someId() { return fmt::format("e{}", below(40)); }

  ModelEvent newEvent(const std::string& id) {
    ModelEvent event;
    event.id = id;
    event.json = fmt::format(R"({{"id":"{}","content":{})", id, below(3));
    if (below(3) != 0) event.request = fmt::format("r{}", below(5));
    if (below(2) == 0) event.author = fmt::format("a{}", below(3));
    if (event.request) event.json += fmt::format(R"(,"request_id":"{}")", *event.request);
    if (event.author) event.json += fmt::format(R"(,"author":"{}")", *event.author);
    return event;
  }

  void doSomething() {
    switch (below(10)) {
      case 0:
        return replace();
      case 1:
        return remove();
      case 2:
        return below(3) == 0 ? trim() : append();
      case 3:
        return below(4) == 0 ? rewind() : append();
      case 4:
        return repeat();
      default:
        return append();
    }
  }

  void append() {
    const std::size_t count = 1 + below(3);
    std::vector<ModelEvent> added;
    std::vector<NewEvent> events;
    std::set<std::string> ids;
    for (std::size_t i = 0; i < count; ++i) {
      const std::string id = someId();
      if (!ids.insert(id).second) continue;
      ModelEvent event = newEvent(id);
      if (below(2) == 0) {
        const std::string key = fmt::format("k{}", below(3));
        const std::string value = below(3) == 0 ? "null" : std::to_string(below(100));
        event.json += fmt::format(R"(,"state_delta":{{"{}":{}}})", key, value);
      }
      event.json += '}';
      events.push_back(*parseEvent(event.json));
      added.push_back(std::move(event));
    }
    const auto answer = run(log_.append(name_, events, AppendOptions()));
    const bool clashes = std::any_of(added.begin(), added.end(), [&](const ModelEvent& event) {
      const ModelEvent* there = model_.find(event.id);
      return there != nullptr && there->json != event.json;
    });
    if (clashes) {
      ASSERT_FALSE(answer);
      EXPECT_EQ(answer.error().code(), Code::Conflict);
      return;
    }
    ASSERT_TRUE(answer) << answer.error().message();
    std::size_t fresh = 0;
    for (std::size_t i = 0; i < added.size(); ++i) {
      if (const ModelEvent* there = model_.find(added[i].id)) {
        EXPECT_EQ(answer->items[i].seq, there->seq);
        continue;
      }
      ++fresh;
      added[i].seq = ++model_.last_seq;
      EXPECT_EQ(answer->items[i].seq, added[i].seq);
      for (const Change& change : events[i].delta.session) {
        if (change.value) {
          model_.state[change.key] = *change.value;
        } else {
          model_.state.erase(change.key);
        }
      }
      model_.events.push_back(added[i]);
    }
    EXPECT_EQ(answer->was_known, fresh == 0);
    if (fresh > 0) EXPECT_EQ(answer->evicted, model_.evict(max_, batch_, fresh));
  }

  void repeat() {
    if (model_.events.empty()) return;
    const ModelEvent& event = model_.events[below(model_.events.size())];
    std::vector<NewEvent> events;
    events.push_back(*parseEvent(event.json));
    const auto answer = run(log_.append(name_, events, AppendOptions()));
    ASSERT_TRUE(answer);
    EXPECT_TRUE(answer->was_known) << "also if it was replaced since";
    EXPECT_EQ(answer->items[0].seq, event.seq);
  }

  void replace() {
    if (model_.events.empty()) return;
    ModelEvent& there = model_.events[below(model_.events.size())];
    ModelEvent event = newEvent(there.id);
    event.json += '}';
    const bool stale = below(3) == 0;
    const auto answer = run(log_.replace(name_, there.id, *parseEvent(event.json),
                                         stale ? there.version + 1 : there.version));
    if (stale) {
      ASSERT_FALSE(answer);
      EXPECT_EQ(answer.error().code(), Code::VersionConflict);
      return;
    }
    ASSERT_TRUE(answer);
    there.request = event.request;
    there.author = event.author;
    there.version = answer->items[0].version;
  }

  void remove() {
    const std::string id = someId();
    const auto removed = run(log_.remove(name_, id, std::nullopt));
    EXPECT_EQ(removed.has_value(), model_.find(id) != nullptr);
    std::erase_if(model_.events, [&](const ModelEvent& event) { return event.id == id; });
  }

  void trim() {
    const std::size_t count = 1 + below(3);
    const auto removed = run(log_.trim(name_, count));
    ASSERT_TRUE(removed) << removed.error().message();
    std::vector<std::string> ids;
    for (const store::Entry& entry : *removed) ids.push_back(entry.id);
    EXPECT_EQ(ids, model_.trim(count));
  }

  void rewind() {
    Log::RewindTo to;
    to.seq = below(model_.last_seq + 1);
    const auto removed = run(log_.rewind(name_, to));
    ASSERT_TRUE(removed);
    EXPECT_EQ(*removed, std::erase_if(model_.events, [&](const ModelEvent& event) {
      return event.seq > *to.seq;
    }));
  }

  void compare() {
    ListQuery query;
    query.limit = 1 + below(60);
    if (below(2) == 0) query.order = store::Order::Descending;
    if (below(3) == 0) query.fields[0] = fmt::format("r{}", below(5));
    if (below(3) == 0) query.fields[2] = fmt::format("a{}", below(3));
    std::vector<store::Seq> wanted;
    for (const ModelEvent& event : model_.events) {
      if (query.fields[0] && event.request != query.fields[0]) continue;
      if (query.fields[2] && event.author != query.fields[2]) continue;
      wanted.push_back(event.seq);
    }
    if (query.order == store::Order::Descending) std::reverse(wanted.begin(), wanted.end());
    if (!query.isFiltered() && below(3) == 0) {
      query.offset = below(20);
      wanted.erase(wanted.begin(),
                   wanted.begin() + static_cast<std::ptrdiff_t>(
                                        std::min<std::size_t>(*query.offset, wanted.size())));
      wanted.resize(std::min(wanted.size(), query.limit));
    }
    std::vector<store::Seq> seen;
    while (true) {
      const auto page = run(log_.list(name_, query));
      ASSERT_TRUE(page) << page.error().message();
      for (const store::Entry& entry : page->entries) seen.push_back(entry.seq);
      if (!page->next || query.offset) break;
      query.after = page->next;
    }
    EXPECT_EQ(seen, wanted);
    const auto session = run(sessions_.get(name_.session));
    ASSERT_TRUE(session);
    EXPECT_EQ(session->event_count, model_.events.size());
    EXPECT_EQ(session->last_seq, model_.last_seq);
    const auto state = run(readState(store_, name_.session.partition()));
    ASSERT_TRUE(state);
    EXPECT_EQ((std::map<std::string, std::string>(state->begin(), state->end())), model_.state);
  }

  store::Store& store_;
  ManualClock& clock_;
  std::mt19937_64 engine_;
  SeededRandom random_;
  Turns turns_;
  Log log_{store_, random_, turns_};
  Sessions sessions_{store_, random_, turns_};
  LogName name_{{"app" + std::to_string(random_.next()), "u", "s"}, ""};
  std::uint64_t max_ = 0;
  std::uint64_t batch_ = 1;
  Model model_;
};

inline std::uint64_t firstSeed() {
  const char* given = std::getenv("NIMBUS_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
}

inline void playMany(store::Store& store, ManualClock& clock, int histories) {
  const std::uint64_t first = firstSeed();
  for (int i = 0; i < histories && !::testing::Test::HasFailure(); ++i) {
    const std::uint64_t seed = first + static_cast<std::uint64_t>(i);
    SCOPED_TRACE(fmt::format("NIMBUS_SEED={}", seed));
    History(store, clock, seed).play(60);
  }
}

}  // namespace nimbus::events
