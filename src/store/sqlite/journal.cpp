#include "store/sqlite/journal.h"

#include "base/random.h"
#include "store/sqlite/bytes.h"

#include <algorithm>
#include <limits>
#include <utility>

// A page: entries, one after another. A row is the letter 'r', its partition and its image; that a
// partition was settled is the letter 's' and its name. An image: space and key, which are its
// name, then version, expires_at, updated_at, sweep_at and value; see bytes.h.

namespace nimbus::store::sqlite {
namespace {

constexpr char kRow = 'r';
constexpr char kSettled = 's';
constexpr std::int64_t kNobody = -1;
constexpr std::uint64_t kNoTime = std::numeric_limits<std::uint64_t>::max();

std::uint64_t packed(Timestamp time) {
  return static_cast<std::uint64_t>(time.time_since_epoch().count());
}
std::uint64_t packed(const std::optional<Timestamp>& time) {
  return time ? packed(*time) : kNoTime;
}
Timestamp timeOf(std::uint64_t number) {
  return Timestamp(Millis(static_cast<std::int64_t>(number)));
}
std::optional<Timestamp> optionalTimeOf(std::uint64_t number) {
  return number == kNoTime ? std::nullopt : std::optional(timeOf(number));
}

// The number of bytes of its name.
std::size_t appendImage(std::string& out, const RecordRow& row) {
  const std::size_t begin = out.size();
  appendString(out, row.space);
  appendString(out, row.key);
  const std::size_t name_bytes = out.size() - begin;
  appendNumber(out, row.version);
  appendNumber(out, packed(row.expires_at));
  appendNumber(out, packed(row.updated_at));
  appendNumber(out, packed(row.sweep_at));
  appendString(out, row.value);
  return name_bytes;
}

RecordRow takeImage(Bytes& bytes, std::string_view partition) {
  RecordRow row;
  row.partition = partition;
  row.space = bytes.takeString();
  row.key = bytes.takeString();
  row.version = bytes.takeNumber();
  row.expires_at = optionalTimeOf(bytes.takeNumber());
  row.updated_at = timeOf(bytes.takeNumber());
  row.sweep_at = optionalTimeOf(bytes.takeNumber());
  row.value = bytes.takeString();
  return row;
}

Result<> putImages(std::string_view partition, const DeferredRows::Images& images,
                   const PutRow& put) {
  for (const RowImage& image : images) {
    Bytes bytes(image.bytes);
    NIMBUS_CHECK(put(takeImage(bytes, partition)));
  }
  return {};
}

// Rows of a partition are few: a session's state, and headers.
template <typename Images>
auto findImage(Images& images, std::string_view name) {
  return std::find_if(images.begin(), images.end(),
                      [&](const auto& image) { return image.name() == name; });
}

}  // namespace

// ---- Rows

void DeferredRows::replay(std::string_view entries, std::string_view only) {
  Bytes bytes(entries);
  while (!bytes.empty()) {
    const char kind = bytes.takeByte();
    const std::string_view partition = bytes.takeString();
    const bool wanted = only.empty() || only == partition;
    if (kind == kSettled) {
      if (const auto place = partitions.find(partition); place != partitions.end()) {
        partitions.erase(place);
      }
      continue;
    }
    const RecordRow row = takeImage(bytes, partition);
    if (!wanted) continue;
    std::string image;
    const std::size_t name_bytes = appendImage(image, row);
    Images& images = partitions[std::string(partition)];
    const auto before = findImage(images, std::string_view(image).substr(0, name_bytes));
    if (before == images.end()) {
      images.push_back({std::move(image), name_bytes});
    } else {
      before->bytes = std::move(image);
    }
  }
}

Result<> DeferredRows::putAll(const PutRow& put) const {
  for (const auto& [partition, images] : partitions) {
    NIMBUS_CHECK(putImages(partition, images, put));
  }
  return {};
}

// ---- What readers are told

DeferredPartitions::DeferredPartitions()
    : writer_(static_cast<std::int64_t>(SystemRandom().next() >> 1U)) {}

std::int64_t DeferredPartitions::knownWriter() const {
  const std::lock_guard lock(mutex_);
  return unknown_ ? kNobody : writer_;
}

bool DeferredPartitions::has(std::string_view partition) const {
  const std::lock_guard lock(mutex_);
  return partitions_.contains(partition);
}

void DeferredPartitions::add(std::string_view partition) {
  const std::lock_guard lock(mutex_);
  partitions_.emplace(partition);
}

void DeferredPartitions::remove(const std::vector<std::string>& partitions) {
  const std::lock_guard lock(mutex_);
  for (const std::string& partition : partitions) partitions_.erase(partition);
}

void DeferredPartitions::setUnknown() {
  const std::lock_guard lock(mutex_);
  unknown_ = true;
  partitions_.clear();
}

void DeferredPartitions::setEmpty() {
  const std::lock_guard lock(mutex_);
  unknown_ = false;
  partitions_.clear();
}

// ---- The journal

Journal::Journal(Connection& connection, Options options, DeferredPartitions& deferred, PutRow put)
    : options_(options),
      deferred_(deferred),
      put_(std::move(put)),
      add_page_(connection, "INSERT INTO journal(page, writer, entries) VALUES(?1, ?2, ?3)"),
      read_page_(connection, "SELECT entries FROM journal WHERE page=?1"),
      read_all_(connection, "SELECT page, entries FROM journal ORDER BY page"),
      remove_pages_(connection, "DELETE FROM journal WHERE page<=?1") {}

Result<> Journal::begin() {
  if (quiet_ > 0) --quiet_;
  if (!known_) NIMBUS_CHECK(replay());
  pages_.emplace_back();
  return {};
}

void Journal::add(const RecordRow& row) {
  auto partition = rows_.partitions.find(row.partition);
  if (partition == rows_.partitions.end()) {
    partition = rows_.partitions.emplace(std::string(row.partition), DeferredRows::Images()).first;
    deferred_.add(row.partition);
  }
  page_ += kRow;
  appendString(page_, row.partition);
  const std::size_t begin = page_.size();
  const std::size_t name_bytes = appendImage(page_, row);
  const std::string_view bytes = std::string_view(page_).substr(begin);
  auto image = findImage(partition->second, bytes.substr(0, name_bytes));
  if (image == partition->second.end()) {
    image = partition->second.emplace(image);
  } else {
    --pageOf(*image).images;
  }
  image->bytes = bytes;
  image->name_bytes = name_bytes;
  image->page = currentPage();
  ++pages_.back().images;
}

Result<> Journal::settle(std::string_view name) {
  const auto partition = rows_.partitions.find(name);
  if (partition == rows_.partitions.end()) return {};
  NIMBUS_CHECK(putImages(name, partition->second, put_));
  for (const RowImage& image : partition->second) --pageOf(image).images;
  page_ += kSettled;
  appendString(page_, name);
  settled_.push_back(std::move(rows_.partitions.extract(partition).key()));
  return {};
}

Result<> Journal::settleAll() {
  while (hasAny()) NIMBUS_CHECK(settle(rows_.partitions.begin()->first));
  return {};
}

Result<> Journal::write() {
  if (page_.empty()) {
    pages_.pop_back();
    return {};
  }
  NIMBUS_CHECK(add_page_.run(currentPage(), deferred_.writer(), std::string_view(page_)));
  pages_.back().bytes = page_.size();
  bytes_ += page_.size();
  page_.clear();
  return makeRoom();
}

// A little more than is needed, so that not every transaction has to.
Result<> Journal::makeRoom() {
  if (bytes_ <= options_.max_bytes) return {};
  const std::size_t wanted = options_.max_bytes - options_.max_bytes / 64;
  while (bytes_ > wanted && pages_.size() > 1) {
    if (pages_.front().images > 0) NIMBUS_CHECK(takeOut(first_page_));
    bytes_ -= pages_.front().bytes;
    pages_.pop_front();
    ++first_page_;
  }
  NIMBUS_CHECK(remove_pages_.run(first_page_ - 1));
  return {};
}

// The page goes: what is the newest of its row goes where it belongs.
Result<> Journal::takeOut(std::uint64_t page) {
  auto found = read_page_.query(page);
  NIMBUS_TRY(const bool exists, found.next());
  NIMBUS_ASSERT(exists, "a page of ours is there until we remove it");
  Bytes bytes(found.bytes(0));
  while (!bytes.empty()) {
    const char kind = bytes.takeByte();
    const std::string_view name = bytes.takeString();
    if (kind == kSettled) continue;
    const RecordRow row = takeImage(bytes, name);
    const auto partition = rows_.partitions.find(name);
    if (partition == rows_.partitions.end()) continue;
    DeferredRows::Images& images = partition->second;
    const auto image = std::find_if(images.begin(), images.end(), [&](const RowImage& one) {
      if (one.page != page) return false;
      Bytes named(one.bytes);
      return named.takeString() == row.space && named.takeString() == row.key;
    });
    if (image == images.end()) continue;
    Bytes newest(image->bytes);
    NIMBUS_CHECK(put_(takeImage(newest, name)));
    *image = std::move(images.back());
    images.pop_back();
    if (images.empty()) settled_.push_back(std::move(rows_.partitions.extract(partition).key()));
  }
  return {};
}

void Journal::committed() {
  if (!known_) {
    known_ = true;
    deferred_.setEmpty();
  }
  if (settled_.empty()) return;
  // One that was deferred anew is still to be settled.
  std::erase_if(settled_, [this](const std::string& partition) { return has(partition); });
  deferred_.remove(settled_);
  settled_.clear();
}

void Journal::forgetAll() {
  if (known_) quiet_ = options_.quiet_transactions;
  known_ = false;
  deferred_.setUnknown();
  rows_.partitions.clear();
  page_.clear();
  pages_.clear();
  settled_.clear();
  bytes_ = 0;
}

Result<> Journal::replay() {
  DeferredRows rows;
  std::uint64_t last = 0;
  {
    auto pages = read_all_.query();
    while (true) {
      NIMBUS_TRY(const bool more, pages.next());
      if (!more) break;
      last = pages.unsignedInteger(0);
      rows.replay(pages.bytes(1), {});
    }
  }
  NIMBUS_CHECK(rows.putAll(put_));
  if (last > 0) NIMBUS_CHECK(remove_pages_.run(last));
  first_page_ = last + 1;
  return {};
}

}  // namespace nimbus::store::sqlite
