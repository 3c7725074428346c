#pragma once
// Questions about one partition. Those asked together are answered from one snapshot.

#include "store/types.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace nimbus::store {

enum class Order : std::uint8_t { Ascending, Descending };
enum class Values : std::uint8_t { Include, Omit };

namespace query {

// Expired records are not there: expiry is exact, by the store's clock.
struct GetRecord {  // -> std::optional<Record>
  std::string space;
  std::string key;
};

// In the order of the keys' bytes.
struct ScanRecords {  // -> RecordPage
  std::string space;
  std::string after;   // only keys greater than this
  std::string prefix;  // only keys that begin with this
  std::size_t limit = 100;
  Values values = Values::Include;
};

struct GetUsage {  // -> Usage
  std::string space;
};

struct GetLogInfo {  // -> LogInfo
  std::string log;
};

struct GetEntry {  // -> std::optional<Entry>
  std::string log;
  std::string id;
};

// By seq.
struct ScanLog {  // -> EntryPage
  std::string log;
  Seq from = 1;
  Seq to = UINT64_MAX;
  Order order = Order::Ascending;
  std::size_t limit = 100;
};

// Entries under the terms first..last of an index (both included), by term and then seq. An entry
// that stands under several of these terms comes once for each.
struct ScanIndex {  // -> IndexPage
  std::string log;
  std::string index;
  std::string first;
  std::string last;
  // Goes on behind this position of an earlier page.
  struct Position {
    std::string term;
    Seq seq = 0;
  };
  std::optional<Position> after;
  Order order = Order::Ascending;
  std::size_t limit = 100;
};

// Also expired ones: who held it last matters.
struct GetLease {  // -> std::optional<Lease>; absent if never granted, or released
  std::string lease;
};

struct GetQueueInfo {  // -> QueueInfo
  std::string queue;
};

struct GetItem {  // -> std::optional<QueueItem>
  std::string queue;
  std::string id;
};

// Line and Parked by position, Scheduled by due time and then position.
struct ScanQueue {  // -> ItemPage
  std::string queue;
  QueuePart part = QueuePart::Line;
  // Goes on behind the last item of an earlier page.
  struct Position {
    Timestamp due_at;
    Seq position = 0;
  };
  std::optional<Position> after;
  std::size_t limit = 100;
};

}  // namespace query

using Query = std::variant<query::GetRecord, query::ScanRecords, query::GetUsage, query::GetLogInfo,
                           query::GetEntry, query::ScanLog, query::ScanIndex, query::GetLease,
                           query::GetQueueInfo, query::GetItem, query::ScanQueue>;

// `more` is exact: there is at least one further item.
template <typename T>
struct Page {
  std::vector<T> items;
  bool more = false;

  bool operator==(const Page&) const = default;
};

// Where an entry was found, and the entry.
struct IndexHit {
  std::string term;
  Entry entry;

  bool operator==(const IndexHit&) const = default;
};

using RecordPage = Page<Record>;
using EntryPage = Page<Entry>;
using IndexPage = Page<IndexHit>;
using ItemPage = Page<QueueItem>;
using DirectoryPage = Page<DirectoryEntry>;

using Answer =
    std::variant<std::optional<Record>, RecordPage, Usage, LogInfo, std::optional<Entry>, EntryPage,
                 IndexPage, std::optional<Lease>, QueueInfo, std::optional<QueueItem>, ItemPage>;

inline constexpr std::size_t kMaxPage = 10'000;

}  // namespace nimbus::store
