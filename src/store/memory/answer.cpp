#include "store/memory/partition_data.h"
#include "store/rules.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <tuple>

namespace nimbus::store::memory {
namespace {

// Fills a page. False once there is one more than fits, which makes `more` exact.
template <typename T>
bool addToPage(Page<T>& page, T item, std::size_t limit) {
  if (page.items.size() == limit) {
    page.more = true;
    return false;
  }
  page.items.push_back(std::move(item));
  return true;
}

class Answers {
 public:
  Answers(const PartitionData& data, Timestamp now) : data_(data), now_(now) {}

  Answer operator()(const query::GetRecord& q) const {
    const StoredRecord* found = orEmpty(data_.spaces, q.space).findLive(q.key, now_);
    if (found == nullptr) return std::optional<Record>();
    return std::optional(record(q.key, *found, Values::Include));
  }
  Answer operator()(const query::ScanRecords& q) const {
    const auto& records = orEmpty(data_.spaces, q.space).records;
    RecordPage page;
    for (auto place = records.lower_bound(std::max(q.after, q.prefix)); place != records.end();
         ++place) {
      const auto& [key, stored] = *place;
      if (!key.starts_with(q.prefix)) break;
      if (key <= q.after || !isLive(stored.expires_at, now_)) continue;
      if (!addToPage(page, record(key, stored, q.values), q.limit)) break;
    }
    return page;
  }
  Answer operator()(const query::GetUsage& q) const {
    return orEmpty(data_.spaces, q.space).usage(now_);
  }

  Answer operator()(const query::GetLogInfo& q) const { return orEmpty(data_.logs, q.log).info(); }
  Answer operator()(const query::GetEntry& q) const {
    const Entry* found = orEmpty(data_.logs, q.log).find(q.id);
    return found != nullptr ? std::optional(*found) : std::nullopt;
  }
  Answer operator()(const query::ScanLog& q) const {
    if (q.from > q.to) return EntryPage();
    const auto& entries = orEmpty(data_.logs, q.log).entries;
    return entryPage(entries.lower_bound(q.from), entries.upper_bound(q.to), q);
  }
  Answer operator()(const query::ScanIndex& q) const {
    const Log& log = orEmpty(data_.logs, q.log);
    std::vector<std::pair<std::string, Seq>> hits;
    const auto from = log.index.lower_bound({q.index, q.first, 0});
    for (auto place = from; place != log.index.end(); ++place) {
      const auto& [index, term, seq] = *place;
      if (index != q.index || term > q.last) break;
      hits.emplace_back(term, seq);
    }
    if (q.order == Order::Descending) std::reverse(hits.begin(), hits.end());
    IndexPage page;
    for (const auto& [term, seq] : hits) {
      if (q.after && !isBehind(term, seq, *q.after, q.order)) continue;
      if (!addToPage(page, IndexHit{term, log.entries.at(seq)}, q.limit)) break;
    }
    return page;
  }

  Answer operator()(const query::GetLease& q) const { return orEmpty(data_.leases, q.lease).lease; }

  Answer operator()(const query::GetQueueInfo& q) const {
    const Queue& queue = orEmpty(data_.queues, q.queue);
    return QueueInfo{queue.part(QueuePart::Line).size(), queue.part(QueuePart::Scheduled).size(),
                     queue.part(QueuePart::Parked).size()};
  }
  Answer operator()(const query::GetItem& q) const {
    const QueueItem* found = orEmpty(data_.queues, q.queue).find(q.id);
    return found != nullptr ? std::optional(*found) : std::nullopt;
  }
  Answer operator()(const query::ScanQueue& q) const {
    const Queue& queue = orEmpty(data_.queues, q.queue);
    const auto& part = queue.part(q.part);
    auto place = part.begin();
    if (q.after) {
      // Only scheduled items are ordered by due time; elsewhere it has no say.
      const Timestamp due = q.part == QueuePart::Scheduled ? q.after->due_at : Timestamp{};
      place = part.upper_bound({due, q.after->position});
    }
    ItemPage page;
    for (; place != part.end(); ++place) {
      if (!addToPage(page, queue.items.at(place->second), q.limit)) break;
    }
    return page;
  }

 private:
  static Record record(const std::string& key, const StoredRecord& stored, Values values) {
    return {key,
            values == Values::Include ? stored.value : std::string(),
            stored.value.size(),
            stored.version,
            stored.expires_at,
            stored.updated_at};
  }

  template <typename Place>
  static EntryPage entryPage(Place begin, Place end, const query::ScanLog& q) {
    EntryPage page;
    if (q.order == Order::Descending) {
      while (begin != end && addToPage(page, (--end)->second, q.limit)) continue;
    } else {
      while (begin != end && addToPage(page, (begin++)->second, q.limit)) continue;
    }
    return page;
  }

  static bool isBehind(const std::string& term, Seq seq, const query::ScanIndex::Position& after,
                       Order order) {
    const auto here = std::tie(term, seq);
    const auto there = std::tie(after.term, after.seq);
    return order == Order::Ascending ? here > there : here < there;
  }

  const PartitionData& data_;
  const Timestamp now_;
};

}  // namespace

Answer answer(const PartitionData& data, const Query& query, Timestamp now) {
  return std::visit(Answers(data, now), query);
}

}  // namespace nimbus::store::memory
