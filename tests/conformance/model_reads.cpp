// The reads of the model: everything is gathered, put in order, and cut to the page.

#include "model.h"
#include "text.h"

#include <algorithm>
#include <tuple>

namespace nimbus::store::conformance {
namespace {

template <typename T>
Page<T> cut(std::vector<T> items, std::size_t limit) {
  Page<T> page;
  page.more = items.size() > limit;
  if (page.more) items.resize(limit);
  page.items = std::move(items);
  return page;
}

template <typename T>
const T& orNever(const std::map<std::string, T>& map, const std::string& name) {
  static const T kNever{};
  const auto found = map.find(name);
  return found != map.end() ? found->second : kNever;
}

class Reads {
 public:
  Reads(const ModelPartition& data, Timestamp now) : data_(data), now_(now) {}

  Answer operator()(const query::GetRecord& q) const {
    const ModelRecord* found = data_.live(q.space, q.key, now_);
    if (found == nullptr) return std::optional<Record>();
    return std::optional<Record>(record(q.key, *found));
  }
  Answer operator()(const query::ScanRecords& q) const {
    std::vector<Record> found;
    for (const auto& [key, stored] : data_.records) {
      if (key.first != q.space || data_.live(key.first, key.second, now_) == nullptr) continue;
      if (key.second <= q.after || key.second.compare(0, q.prefix.size(), q.prefix) != 0) continue;
      found.push_back(record(key.second, stored));
      if (q.values == Values::Omit) found.back().value.clear();
    }
    return cut(std::move(found), q.limit);
  }
  Answer operator()(const query::GetUsage& q) const {
    Usage usage;
    for (const auto& [key, stored] : data_.records) {
      if (key.first != q.space || data_.live(key.first, key.second, now_) == nullptr) continue;
      usage.records += 1;
      usage.bytes += stored.value.size();
    }
    usage.floor = std::max({orNever(data_.erased, q.space), orNever(data_.expired, q.space),
                            data_.lapsed(q.space, now_)});
    return usage;
  }

  Answer operator()(const query::GetLogInfo& q) const {
    const ModelLog& log = orNever(data_.logs, q.log);
    return LogInfo{log.last_seq, log.entries.size(), log.seen_revision};
  }
  Answer operator()(const query::GetEntry& q) const {
    for (const Entry& entry : orNever(data_.logs, q.log).entries) {
      if (entry.id == q.id) return std::optional<Entry>(entry);
    }
    return std::optional<Entry>();
  }
  Answer operator()(const query::ScanLog& q) const {
    std::vector<Entry> found;
    for (const Entry& entry : orNever(data_.logs, q.log).entries) {
      if (entry.seq >= q.from && entry.seq <= q.to) found.push_back(entry);
    }
    if (q.order == Order::Descending) std::reverse(found.begin(), found.end());
    return cut(std::move(found), q.limit);
  }
  Answer operator()(const query::ScanIndex& q) const {
    std::set<std::pair<std::string, Seq>> places;
    const std::vector<Entry>& entries = orNever(data_.logs, q.log).entries;
    for (const Entry& entry : entries) {
      for (const Term& term : entry.terms) {
        if (term.index != q.index || term.value < q.first || term.value > q.last) continue;
        places.emplace(term.value, entry.seq);
      }
    }
    std::vector<std::pair<std::string, Seq>> ordered(places.begin(), places.end());
    if (q.order == Order::Descending) std::reverse(ordered.begin(), ordered.end());
    std::vector<IndexHit> found;
    for (const auto& place : ordered) {
      if (q.after) {
        const std::pair<std::string, Seq> after(q.after->term, q.after->seq);
        if (q.order == Order::Ascending ? place <= after : place >= after) continue;
      }
      const auto entry = std::find_if(entries.begin(), entries.end(),
                                      [&](const Entry& e) { return e.seq == place.second; });
      found.push_back({place.first, *entry});
    }
    return cut(std::move(found), q.limit);
  }

  Answer operator()(const query::GetLease& q) const {
    const auto found = data_.leases.find(q.lease);
    return found != data_.leases.end() ? std::optional(found->second) : std::nullopt;
  }

  Answer operator()(const query::GetQueueInfo& q) const {
    QueueInfo info;
    for (const QueueItem& item : orNever(data_.queues, q.queue).items) {
      if (item.part == QueuePart::Line) info.waiting += 1;
      if (item.part == QueuePart::Scheduled) info.scheduled += 1;
      if (item.part == QueuePart::Parked) info.parked += 1;
    }
    return info;
  }
  Answer operator()(const query::GetItem& q) const {
    for (const QueueItem& item : orNever(data_.queues, q.queue).items) {
      if (item.id == q.id) return std::optional<QueueItem>(item);
    }
    return std::optional<QueueItem>();
  }
  Answer operator()(const query::ScanQueue& q) const {
    const auto place = [&](Timestamp due_at, Seq position) {
      return std::pair(q.part == QueuePart::Scheduled ? due_at : Timestamp(), position);
    };
    std::vector<QueueItem> found;
    for (const QueueItem& item : orNever(data_.queues, q.queue).items) {
      if (item.part != q.part) continue;
      const auto here = place(item.due_at, item.position);
      if (q.after && here <= place(q.after->due_at, q.after->position)) continue;
      found.push_back(item);
    }
    std::sort(found.begin(), found.end(), [&](const QueueItem& a, const QueueItem& b) {
      return place(a.due_at, a.position) < place(b.due_at, b.position);
    });
    return cut(std::move(found), q.limit);
  }

 private:
  static Record record(const std::string& key, const ModelRecord& stored) {
    return {key,
            stored.value,
            stored.value.size(),
            stored.version,
            stored.expires_at,
            stored.updated_at};
  }

  const ModelPartition& data_;
  const Timestamp now_;
};

// The floor has all that was surely removed or has expired since; what expired and was written
// again, only if it was swept in between. What the store shows is what it is, from now on.
void learnFloor(ModelPartition& data, const std::string& space, Timestamp now, Version shown) {
  const Version lapsed = data.lapsed(space, now);
  Version& erased = data.erased[space];
  Version& expired = data.expired[space];
  const bool possible =
      std::max(erased, lapsed) <= shown && shown <= std::max({erased, expired, lapsed});
  if (!possible) return;
  expired = shown;
  if (shown > lapsed) erased = shown;
}

}  // namespace

std::string Model::read(const Partition& partition, const Query& query, Timestamp now,
                        const Answer& answered) {
  ModelPartition& data = partitions_[partition];
  if (const auto* asked = std::get_if<query::GetLogInfo>(&query)) {
    const auto log = data.logs.find(asked->log);
    if (log != data.logs.end() && log->second.changes != log->second.seen_changes) {
      const std::uint64_t revision = std::get<LogInfo>(answered).revision;
      if (revision <= log->second.seen_revision) return "the revision of a log did not grow";
      log->second.seen_revision = revision;
      log->second.seen_changes = log->second.changes;
    }
  }
  if (const auto* asked = std::get_if<query::GetUsage>(&query)) {
    learnFloor(data, asked->space, now, std::get<Usage>(answered).floor);
  }
  const Answer predicted = std::visit(Reads(data, now), query);
  // Text is slow but knows what has no meaning; what is equal anyway needs none.
  if (predicted == answered || text(predicted) == text(answered)) return {};
  return "predicted:\n" + text(predicted) + "\nanswered:\n" + text(answered);
}

}  // namespace nimbus::store::conformance
