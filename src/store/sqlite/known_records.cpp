#include "store/sqlite/known_records.h"

#include <algorithm>
#include <utility>

namespace nimbus::store::sqlite {

void KnownRecords::begin(std::string_view partition) {
  auto place = young_.find(partition);
  if (place == young_.end()) {
    if (young_.size() >= kPartitions) {
      old_ = std::move(young_);
      young_.clear();
    }
    if (auto kept = old_.find(partition); kept != old_.end()) {
      place = young_.insert(old_.extract(kept)).position;
    } else {
      place = young_.emplace(std::string(partition), Known()).first;
    }
  }
  current_ = &place->second;
}

const KnownRecord* KnownRecords::find(std::string_view space, std::string_view key) const {
  for (const KnownRecord& record : current_->records) {
    if (record.key == key && record.space == space) return &record;
  }
  return nullptr;
}

const KnownHeader* KnownRecords::findHeader(std::string_view space) const {
  for (const KnownHeader& header : current_->headers) {
    if (header.space == space) return &header;
  }
  return nullptr;
}

KnownRecord* KnownRecords::place(std::string_view space, std::string_view key) {
  for (KnownRecord& known : current_->records) {
    if (known.key == key && known.space == space) return &known;
  }
  if (current_->records.size() == kRecords) return nullptr;
  KnownRecord& added = current_->records.emplace_back();
  added.space = space;
  added.key = key;
  return &added;
}

KnownHeader* KnownRecords::placeHeader(std::string_view space) {
  for (KnownHeader& known : current_->headers) {
    if (known.space == space) return &known;
  }
  if (current_->headers.size() == kRecords) return nullptr;
  KnownHeader& added = current_->headers.emplace_back();
  added.space = space;
  return &added;
}

void KnownRecords::forget(std::string_view space, std::string_view key) {
  std::erase_if(current_->records, [&](const KnownRecord& record) {
    return record.key == key && record.space == space;
  });
}

void KnownRecords::forgetSpace(std::string_view space) {
  std::erase_if(current_->records,
                [&](const KnownRecord& record) { return record.space == space; });
  std::erase_if(current_->headers,
                [&](const KnownHeader& header) { return header.space == space; });
}

void KnownRecords::forgetPartition(std::string_view partition) {
  for (Partitions* const generation : {&young_, &old_}) {
    if (const auto place = generation->find(partition); place != generation->end()) {
      place->second.records.clear();  // it may be the current one
      place->second.headers.clear();
    }
  }
}

void KnownRecords::forgetAll() {
  young_.clear();
  old_.clear();
  current_ = nullptr;
}

}  // namespace nimbus::store::sqlite
