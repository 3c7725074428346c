#include "store/memory/partition_data.h"

#include "store/rules.h"

#include <algorithm>

namespace nimbus::store::memory {

const StoredRecord* Space::findLive(const std::string& key, Timestamp now) const {
  const auto found = records.find(key);
  if (found == records.end() || !isLive(found->second.expires_at, now)) return nullptr;
  return &found->second;
}

Version Space::liveVersion(const std::string& key, Timestamp now) const {
  const StoredRecord* record = findLive(key, now);
  return record != nullptr ? record->version : 0;
}

Version Space::highestVersion() const {
  Version highest = floor;
  for (const auto& [key, record] : records) highest = std::max(highest, record.version);
  return highest;
}

Usage Space::usage(Timestamp now) const {
  Usage usage{.floor = floor};
  for (const auto& [key, record] : records) {
    if (isLive(record.expires_at, now)) {
      ++usage.records;
      usage.bytes += record.value.size();
    } else {
      usage.floor = std::max(usage.floor, record.version);
    }
  }
  return usage;
}

const Entry* Log::find(const std::string& id) const {
  const auto found = by_id.find(id);
  return found != by_id.end() ? &entries.at(found->second) : nullptr;
}

const QueueItem* Queue::find(const std::string& id) const {
  const auto found = items.find(id);
  return found != items.end() ? &found->second : nullptr;
}

const QueueItem* Queue::find(const std::string& id, QueuePart part) const {
  const QueueItem* item = find(id);
  return item != nullptr && item->part == part ? item : nullptr;
}

const std::map<Queue::Place, std::string>& Queue::part(QueuePart which) const {
  return parts.at(static_cast<std::size_t>(which));
}

std::map<Queue::Place, std::string>& Queue::part(QueuePart which) {
  return parts.at(static_cast<std::size_t>(which));
}

bool PartitionData::empty() const {
  return spaces.empty() && logs.empty() && leases.empty() && queues.empty() && limiters.empty();
}

std::uint64_t sweep(PartitionData& data, Timestamp now) {
  std::uint64_t removed = 0;
  for (auto& [name, space] : data.spaces) {
    removed += std::erase_if(space.records, [&space = space, now](const auto& entry) {
      const StoredRecord& record = entry.second;
      if (isLive(record.expires_at, now)) return false;
      space.floor = std::max(space.floor, record.version);
      return true;
    });
  }
  const std::int64_t now_us = std::chrono::microseconds(now.time_since_epoch()).count();
  removed += std::erase_if(data.limiters,
                           [now_us](const auto& limiter) { return limiter.second <= now_us; });
  return removed;
}

}  // namespace nimbus::store::memory
