// Lists of sessions.

#include "base/together.h"
#include "events/sessions.h"

#include <algorithm>
#include <set>
#include <utility>

namespace nimbus::events {
namespace {

// An entry is written before the session it lists, by whoever is not done yet; after so long nobody
// is.
constexpr std::chrono::minutes kListedBefore{1};
// A page looks at no more entries than this; then it ends early.
constexpr std::size_t kMaxPassed = 10'000;

bool isOld(const std::string& key, Timestamp now) {
  return key > listedAt(now - kListedBefore);
}

// An entry of the list, and the session as it is.
struct Candidate {
  std::string key;
  SessionName name;
  Result<std::optional<Session>> session;
};

std::vector<Candidate> candidatesOf(const store::DirectoryPage& entries,
                                    const SessionQuery& query) {
  std::vector<Candidate> candidates;
  for (const store::DirectoryEntry& entry : entries.items) {
    auto name = nameOf(query.app, entry.value);
    if (!name || !name->owner().starts_with(query.owner_prefix)) continue;
    candidates.push_back({entry.key, *std::move(name), std::optional<Session>()});
  }
  return candidates;
}

Task<> look(store::Store& store, Candidate& candidate) {
  candidate.session = co_await findSession(store, candidate.name);
}

// Side by side: what takes the store long is not to answer, but to be asked.
Task<> lookAtAll(store::Store& store, std::vector<Candidate>& candidates) {
  std::vector<Task<>> looks;
  looks.reserve(candidates.size());
  for (Candidate& candidate : candidates) looks.push_back(look(store, candidate));
  co_await together(std::move(looks));
}

}  // namespace

Task<Result<SessionPage>> Sessions::list(SessionQuery query) {
  const std::string& app = query.app;
  const std::string directory =
      query.user ? sessionDirectory(app, *query.user) : sessionDirectory(app);
  SessionPage page;
  std::set<std::string> listed;  // their partitions
  std::vector<store::Listing> stale;
  std::string after = std::move(query.after);
  for (std::size_t passed = 0; !page.next;) {
    const Timestamp now = store_.now();
    const std::size_t limit = query.limit + 1 - page.items.size();
    NIMBUS_CO_TRY(const store::DirectoryPage entries,
                  co_await store_.readDirectory(directory, after, "", limit));
    std::vector<Candidate> candidates = candidatesOf(entries, query);
    co_await lookAtAll(store_, candidates);
    for (Candidate& candidate : candidates) {
      NIMBUS_CO_TRY(std::optional<Session> session, std::move(candidate.session));
      const SessionName& name = candidate.name;
      // What moved to the front since the directory was read would otherwise be on no page.
      const bool is_here = session && (listingKey(name, session->updated_at) == candidate.key ||
                                       session->updated_at >= now);
      if (is_here && listed.insert(name.partition().name()).second) {
        if (page.items.size() == query.limit) {
          page.next = after;
          break;
        }
        page.items.push_back(*std::move(session));
      } else if (!is_here && isOld(candidate.key, now)) {
        stale.push_back({sessionDirectory(app), candidate.key, std::nullopt});
        stale.push_back({sessionDirectory(app, name.user), candidate.key, std::nullopt});
        if (!session) NIMBUS_CO_CHECK(co_await removeExpired(name));
      }
      after = candidate.key;
    }
    if (page.next || !entries.more) break;
    after = entries.items.back().key;
    passed += entries.items.size();
    if (passed >= kMaxPassed) page.next = after;
  }
  if (!stale.empty()) {
    store::Batch batch;
    batch.listings = std::move(stale);
    store_.commit(appPartition(app), std::nullopt, std::move(batch));
  }
  co_return page;
}

}  // namespace nimbus::events
