#include "events/conversations.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace nimbus::events {
namespace {

// Most of what is looked for lies near; pages begin small and grow to this.
constexpr std::size_t kFirstPage = 16;
constexpr std::size_t kPage = 500;
// A conversation that may not be evicted can lie before those that may. So many of its events are
// passed over in one append; then the eviction is left to a later one.
constexpr std::size_t kMaxPassed = 5'000;

using store::Entry;
using store::Order;
using store::Seq;

// The request id of a conversation; nothing is that of the events before the first one.
using Conversation = std::optional<std::string>;

// Reads a log page by page.
class Reader {
 public:
  Reader(store::Store& store, const LogName& log)
      : store_(store), partition_(log.session.partition()), log_(log.log()) {}

  Task<Result<store::EntryPage>> scan(Seq from, Seq to, Order order, std::size_t limit) {
    store::query::ScanLog scan;
    scan.log = log_;
    scan.from = from;
    scan.to = to;
    scan.order = order;
    scan.limit = limit;
    return store::ask<store::EntryPage>(store_, partition_, std::move(scan));
  }

  // The events that name the conversation.
  Task<Result<std::vector<Entry>>> named(std::string conversation) {
    std::vector<Entry> entries;
    store::query::ScanIndex scan;
    scan.log = log_;
    scan.index = kConversationIndex;
    scan.first = conversation;
    scan.last = conversation;
    scan.limit = kPage;
    while (entries.size() <= kMaxRemoved) {
      NIMBUS_CO_TRY(store::IndexPage page,
                    co_await store::ask<store::IndexPage>(store_, partition_, scan));
      for (store::IndexHit& hit : page.items) entries.push_back(std::move(hit.entry));
      if (!page.more) break;
      scan.after = store::query::ScanIndex::Position{conversation, entries.back().seq};
    }
    co_return entries;
  }

  // The events without a request id in the row that begins at `from`, before `before`.
  Task<Result<std::vector<Entry>>> unnamed(Seq from, Seq before) {
    std::vector<Entry> entries;
    std::size_t limit = 2;  // most rows are short
    while (from < before && entries.size() <= kMaxRemoved) {
      NIMBUS_CO_TRY(store::EntryPage page,
                    co_await scan(from, before - 1, Order::Ascending, limit));
      limit = kPage;
      for (Entry& entry : page.items) {
        if (conversationOf(entry)) co_return entries;
        from = entry.seq + 1;
        entries.push_back(std::move(entry));
      }
      if (!page.more) break;
    }
    co_return entries;
  }

  const std::string& log() const { return log_; }

 private:
  store::Store& store_;
  const store::Partition partition_;
  const std::string log_;
};

void addRange(Removal& removal, const std::string& log, std::vector<Entry> entries) {
  if (entries.empty()) return;
  removal.operations.emplace_back(
      store::op::RemoveRange{log, entries.front().seq, entries.back().seq});
  std::move(entries.begin(), entries.end(), std::back_inserter(removal.entries));
}

// All of a conversation: the events that name it, and those that follow them without a name.
Task<Result<>> addConversation(Reader& reader, Removal& removal, Conversation conversation) {
  if (!conversation) {
    NIMBUS_CO_TRY(std::vector<Entry> leading, co_await reader.unnamed(1, UINT64_MAX));
    addRange(removal, reader.log(), std::move(leading));
    co_return Result<>();
  }
  NIMBUS_CO_TRY(std::vector<Entry> named, co_await reader.named(*conversation));
  removal.operations.emplace_back(
      store::op::RemoveTerm{reader.log(), {std::string(kConversationIndex), *conversation}});
  for (std::size_t i = 0; i < named.size(); ++i) {
    const Seq next = i + 1 < named.size() ? named[i + 1].seq : UINT64_MAX;
    if (removal.entries.size() > kMaxRemoved) break;
    NIMBUS_CO_TRY(std::vector<Entry> followers, co_await reader.unnamed(named[i].seq + 1, next));
    addRange(removal, reader.log(), std::move(followers));
  }
  std::move(named.begin(), named.end(), std::back_inserter(removal.entries));
  co_return Result<>();
}

void sortEntries(Removal& removal) {
  std::sort(removal.entries.begin(), removal.entries.end(),
            [](const Entry& a, const Entry& b) { return a.seq < b.seq; });
}

// The newest `count` request ids, walking back from the end of the log.
Task<Result<std::vector<std::string>>> newestNames(Reader& reader, std::size_t count) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  Seq to = UINT64_MAX;
  std::size_t walked = 0;
  std::size_t limit = kFirstPage;
  while (walked <= kMaxRemoved) {
    NIMBUS_CO_TRY(const store::EntryPage page,
                  co_await reader.scan(1, to, Order::Descending, limit));
    limit = kPage;
    for (const Entry& entry : page.items) {
      to = entry.seq - 1;
      ++walked;
      const Conversation conversation = conversationOf(entry);
      if (!conversation || seen.contains(*conversation)) continue;
      if (names.size() == count) co_return names;
      seen.insert(*conversation);
      names.push_back(*conversation);
    }
    // The conversation is found by its newest event; the walk need not go on behind the last.
    if (!page.more || names.size() == count) break;
  }
  co_return names;
}

Error tooMany() {
  return Error(Code::TooLarge,
               fmt::format("these conversations have more than {} events; rewind the log instead",
                           kMaxRemoved))
      .with("limit", static_cast<std::int64_t>(kMaxRemoved));
}

// The conversation that an event without a request id joins when it is appended.
Task<Result<Conversation>> lastConversation(Reader& reader) {
  Seq to = UINT64_MAX;
  std::size_t limit = kFirstPage;
  for (std::size_t walked = 0; walked < kMaxPassed; walked += kPage) {
    NIMBUS_CO_TRY(const store::EntryPage page,
                  co_await reader.scan(1, to, Order::Descending, limit));
    limit = kPage;
    for (const Entry& entry : page.items) {
      if (const Conversation conversation = conversationOf(entry)) co_return conversation;
      to = entry.seq - 1;
    }
    if (!page.more) break;
  }
  co_return Conversation();
}

Task<Result<std::set<Conversation>>> conversationsOf(Reader& reader,
                                                     const std::vector<NewEvent>& events) {
  std::set<Conversation> conversations;
  bool joins_last = false;
  for (const NewEvent& event : events) {
    const auto& name = event.field(kConversationIndex);
    if (name) conversations.insert(name);
    joins_last |= !name && conversations.empty();
  }
  if (joins_last) {
    NIMBUS_CO_TRY(Conversation last, co_await lastConversation(reader));
    conversations.insert(std::move(last));
  }
  co_return conversations;
}

}  // namespace

Task<Result<Removal>> newestConversations(store::Store& store, LogName log, std::size_t count) {
  Reader reader(store, log);
  NIMBUS_CO_TRY(const std::vector<std::string> names, co_await newestNames(reader, count));
  Removal removal;
  for (const std::string& name : names) {
    NIMBUS_CO_CHECK(co_await addConversation(reader, removal, name));
    if (removal.entries.size() > kMaxRemoved) co_return tooMany();
  }
  sortEntries(removal);
  co_return removal;
}

Task<Result<Removal>> evictedBy(store::Store& store, LogName log, store::LogInfo info,
                                const std::vector<NewEvent>& events, Retention retention) {
  Removal removal;
  const std::uint64_t total = info.entries + events.size();
  if (retention.max_events == 0 || total <= retention.max_events) co_return removal;
  const std::uint64_t target = retention.max_events - retention.batch;
  Reader reader(store, log);
  NIMBUS_CO_TRY(const std::set<Conversation> staying, co_await conversationsOf(reader, events));
  std::set<Conversation> going;
  Conversation current;
  Seq from = 1;
  std::size_t passed = 0;
  std::size_t limit = kFirstPage;
  while (passed < kMaxPassed) {
    NIMBUS_CO_TRY(const store::EntryPage page,
                  co_await reader.scan(from, UINT64_MAX, Order::Ascending, limit));
    limit = kPage;
    for (const Entry& entry : page.items) {
      from = entry.seq + 1;
      if (Conversation named = conversationOf(entry)) current = std::move(named);
      if (going.contains(current)) continue;
      if (staying.contains(current)) {
        ++passed;
        continue;
      }
      if (total - removal.entries.size() <= target || removal.entries.size() > kMaxRemoved) {
        sortEntries(removal);
        co_return removal;
      }
      going.insert(current);
      NIMBUS_CO_CHECK(co_await addConversation(reader, removal, current));
    }
    if (!page.more) break;
  }
  sortEntries(removal);
  co_return removal;
}

}  // namespace nimbus::events
