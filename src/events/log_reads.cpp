// Pages of a log.

#include "base/json_text.h"
#include "events/log.h"
#include "events/tracks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace nimbus::events {
namespace {

using store::Entry;
using store::Order;
using store::Seq;

// A page of a filtered list looks at no more events than this; then it ends early, with a cursor.
constexpr std::size_t kMaxScanned = 10'000;
// Up to so many events of a span of time are found by the index of times, and then put in order.
constexpr std::size_t kMaxByTime = 1'000;

Error noEvent(std::string_view id) {
  return {Code::NotFound, fmt::format("there is no event \"{}\"", printable(id))};
}

bool matches(const Entry& entry, const ListQuery& query) {
  for (std::size_t i = 0; i < kIndexes.size(); ++i) {
    const auto& wanted = query.fields.at(i);
    if (wanted && fieldOf(entry, kIndexes.at(i)) != wanted) return false;
  }
  if (!query.since && !query.until) return true;
  const auto head = headOf(entry.value);
  return head && (!query.since || head->timestamp >= *query.since) &&
         (!query.until || head->timestamp <= *query.until);
}

store::query::ScanLog scanOf(const LogName& log, const ListQuery& query, std::size_t limit) {
  store::query::ScanLog scan;
  scan.log = log.log();
  scan.order = query.order;
  scan.limit = limit;
  if (query.after && query.order == Order::Ascending) scan.from = *query.after + 1;
  if (query.after && query.order == Order::Descending) scan.to = *query.after - 1;
  return scan;
}

// The page of at most `limit` out of entries of which there may be one more.
EventPage cut(std::vector<Entry> entries, std::size_t limit) {
  EventPage page;
  if (entries.size() > limit) {
    entries.resize(limit);
    page.next = entries.back().seq;
  }
  page.entries = std::move(entries);
  return page;
}

// Reads on, entry by entry, from wherever a filter finds candidates.
class Candidates {
 public:
  Candidates(store::Store& store, const LogName& log, const ListQuery& query,
             const std::vector<std::string>& indexes)
      : store_(store), log_(log), query_(query) {
    for (std::size_t i = 0; i < kIndexes.size() && !index_; ++i) {
      const bool is_kept =
          std::find(indexes.begin(), indexes.end(), kIndexes.at(i)) != indexes.end();
      if (query.fields.at(i) && (is_kept || kIndexes.at(i) == kConversationIndex)) index_ = i;
    }
  }

  // Behind `query.after`, which moves along.
  Task<Result<store::EntryPage>> next(std::size_t limit) {
    if (!index_) {
      co_return co_await store::ask<store::EntryPage>(store_, log_.session.partition(),
                                                      scanOf(log_, query_, limit));
    }
    store::query::ScanIndex scan;
    scan.log = log_.log();
    scan.index = kIndexes.at(*index_);
    scan.first = *query_.fields.at(*index_);
    scan.last = scan.first;
    scan.order = query_.order;
    scan.limit = limit;
    if (query_.after) scan.after = store::query::ScanIndex::Position{scan.first, *query_.after};
    NIMBUS_CO_TRY(store::IndexPage hits,
                  co_await store::ask<store::IndexPage>(store_, log_.session.partition(), scan));
    store::EntryPage page;
    page.more = hits.more;
    for (store::IndexHit& hit : hits.items) page.items.push_back(std::move(hit.entry));
    co_return page;
  }

  void goOnBehind(Seq seq) { query_.after = seq; }

 private:
  store::Store& store_;
  const LogName log_;
  ListQuery query_;
  std::optional<std::size_t> index_;  // the first that is asked for finds the fewest, as a rule
};

Task<Result<EventPage>> listFiltered(store::Store& store, LogName log, ListQuery query,
                                     std::vector<std::string> indexes) {
  Candidates candidates(store, log, query, indexes);
  std::vector<Entry> found;
  std::size_t scanned = 0;
  Seq last = 0;
  while (true) {
    NIMBUS_CO_TRY(store::EntryPage page, co_await candidates.next(query.limit + 1));
    for (Entry& entry : page.items) {
      last = entry.seq;
      if (matches(entry, query)) found.push_back(std::move(entry));
      if (found.size() > query.limit) co_return cut(std::move(found), query.limit);
    }
    scanned += page.items.size();
    if (!page.more) co_return cut(std::move(found), query.limit);
    if (scanned >= kMaxScanned) break;
    candidates.goOnBehind(last);
  }
  EventPage page;
  page.entries = std::move(found);
  page.next = last;
  co_return page;
}

// Nothing if there are too many for one page of the index of times.
Task<Result<std::optional<EventPage>>> listByTime(store::Store& store, LogName log,
                                                  ListQuery query) {
  store::query::ScanIndex scan;
  scan.log = log.log();
  scan.index = kTimeIndex;
  scan.first = timeTerm(query.since.value_or(Timestamp()));
  scan.last = query.until ? timeTerm(*query.until) : "g";  // behind all hexadecimal digits
  scan.limit = kMaxByTime;
  NIMBUS_CO_TRY(store::IndexPage hits, co_await store::ask<store::IndexPage>(
                                           store, log.session.partition(), std::move(scan)));
  if (hits.more) co_return std::optional<EventPage>();
  std::vector<Entry> found;
  const bool ascending = query.order == Order::Ascending;
  for (store::IndexHit& hit : hits.items) {
    const Seq seq = hit.entry.seq;
    const bool is_behind = !query.after || (ascending ? seq > *query.after : seq < *query.after);
    if (is_behind && matches(hit.entry, query)) found.push_back(std::move(hit.entry));
  }
  std::sort(found.begin(), found.end(), [&](const Entry& a, const Entry& b) {
    return ascending ? a.seq < b.seq : a.seq > b.seq;
  });
  co_return std::optional(cut(std::move(found), query.limit));
}

Task<Result<EventPage>> listAround(store::Store& store, LogName log, ListQuery query) {
  store::query::GetEntry get{log.log(), *query.around};
  NIMBUS_CO_TRY(auto entry, co_await store::ask<std::optional<Entry>>(
                                store, log.session.partition(), std::move(get)));
  if (!entry) co_return noEvent(*query.around);
  const std::size_t before = (query.limit - 1) / 2;
  const std::size_t after = query.limit - 1 - before;
  std::vector<store::Query> queries;
  store::query::ScanLog earlier;
  earlier.log = log.log();
  earlier.to = entry->seq - 1;
  earlier.order = Order::Descending;
  earlier.limit = std::max<std::size_t>(before, 1);
  queries.emplace_back(std::move(earlier));
  store::query::ScanLog later;
  later.log = log.log();
  later.from = entry->seq + 1;
  later.limit = std::max<std::size_t>(after, 1);
  queries.emplace_back(std::move(later));
  NIMBUS_CO_TRY(auto answers, co_await store.read(log.session.partition(), std::move(queries)));
  EventPage page;
  if (before > 0) page.entries = std::move(std::get<store::EntryPage>(answers[0]).items);
  std::reverse(page.entries.begin(), page.entries.end());
  page.entries.push_back(*std::move(entry));
  if (after > 0) {
    auto& items = std::get<store::EntryPage>(answers[1]).items;
    std::move(items.begin(), items.end(), std::back_inserter(page.entries));
  }
  if (query.order == Order::Descending) std::reverse(page.entries.begin(), page.entries.end());
  co_return page;
}

// By rank. Where nothing was removed from between, the seq follows from it at once.
Task<Result<EventPage>> listFrom(store::Store& store, LogName log, ListQuery query) {
  const store::Partition partition = log.session.partition();
  std::uint64_t skip = *query.offset;
  query.offset.reset();
  query.after.reset();
  std::vector<store::Query> queries;
  queries.emplace_back(store::query::GetLogInfo{log.log()});
  store::query::ScanLog first;
  first.log = log.log();
  first.limit = 1;
  queries.emplace_back(first);
  first.order = Order::Descending;
  queries.emplace_back(first);
  NIMBUS_CO_TRY(const auto answers, co_await store.read(partition, std::move(queries)));
  const auto& info = std::get<store::LogInfo>(answers[0]);
  if (skip >= info.entries) co_return EventPage();
  const Seq lowest = std::get<store::EntryPage>(answers[1]).items.at(0).seq;
  const Seq highest = std::get<store::EntryPage>(answers[2]).items.at(0).seq;
  const bool ascending = query.order == Order::Ascending;
  if (highest - lowest + 1 == info.entries) {
    if (skip > 0) query.after = ascending ? lowest + skip - 1 : highest - skip + 1;
    skip = 0;
  }
  while (skip > 0) {
    const std::size_t limit = std::min<std::uint64_t>(skip, 1'000);
    NIMBUS_CO_TRY(const store::EntryPage page, co_await store::ask<store::EntryPage>(
                                                   store, partition, scanOf(log, query, limit)));
    if (page.items.empty()) co_return EventPage();
    skip -= page.items.size();
    query.after = page.items.back().seq;
  }
  NIMBUS_CO_TRY(store::EntryPage page, co_await store::ask<store::EntryPage>(
                                           store, partition, scanOf(log, query, query.limit + 1)));
  co_return cut(std::move(page.items), query.limit);
}

}  // namespace

bool ListQuery::isFiltered() const {
  return since || until || std::any_of(fields.begin(), fields.end(), [](const auto& field) {
           return field.has_value();
         });
}

Task<Result<EventPage>> Log::list(LogName log, ListQuery query) {
  std::vector<store::Query> queries;
  const bool is_plain = !query.isFiltered() && !query.around && !query.offset;
  if (query.after && *query.after == 0 && query.order == Order::Descending) co_return EventPage();
  if (is_plain) queries.emplace_back(scanOf(log, query, query.limit + 1));
  NIMBUS_CO_TRY(OpenedLog found, co_await openLog(store_, log, std::move(queries)));
  if (found.has_expired && query.around) co_return noEvent(*query.around);
  if (found.has_expired) co_return EventPage();
  if (is_plain) {
    co_return cut(std::move(std::get<store::EntryPage>(found.opened.answers[0]).items),
                  query.limit);
  }
  if (query.around) co_return co_await listAround(store_, std::move(log), std::move(query));
  if (query.offset && !query.isFiltered()) {
    co_return co_await listFrom(store_, std::move(log), std::move(query));
  }
  const bool by_time_only = std::none_of(query.fields.begin(), query.fields.end(),
                                         [](const auto& field) { return field.has_value(); });
  if (by_time_only) {
    NIMBUS_CO_TRY(auto page, co_await listByTime(store_, log, query));
    if (page) co_return *std::move(page);
  }
  NIMBUS_CO_TRY(const AppSettings settings, co_await readSettings(store_, log.session.app));
  co_return co_await listFiltered(store_, std::move(log), std::move(query), settings.indexes);
}

Task<Result<store::EntryPage>> Log::newest(LogName log, std::size_t count, Seq after) {
  store::query::ScanLog scan;
  scan.log = log.log();
  scan.from = after + 1;
  scan.order = Order::Descending;
  scan.limit = count;
  NIMBUS_CO_TRY(store::EntryPage page, co_await store::ask<store::EntryPage>(
                                           store_, log.session.partition(), std::move(scan)));
  std::reverse(page.items.begin(), page.items.end());
  co_return page;
}

Task<Result<Entry>> Log::get(LogName log, std::string id) {
  std::vector<store::Query> queries;
  queries.emplace_back(store::query::GetEntry{log.log(), id});
  NIMBUS_CO_TRY(OpenedLog found, co_await openLog(store_, log, std::move(queries)));
  auto& entry = std::get<std::optional<Entry>>(found.opened.answers[0]);
  if (entry && !found.has_expired) co_return *std::move(entry);
  co_return noEvent(id);
}

}  // namespace nimbus::events
