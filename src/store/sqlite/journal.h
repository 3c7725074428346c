#pragma once
// Rows of the record table that are durable, but not in their table yet.
//
// To write a row where it belongs changes a page of 4 KiB, and a busy session writes the same row
// again a moment later. So the rows of a transaction are written together, as one *page* of the
// journal table. Only rows that nobody has written anew by the time their page is the oldest go
// where they belong. A row that is in the journal only is *deferred*.
//
// The journal is the truth about its rows: whoever replays it in order has them, and a note that a
// partition was settled (its rows are in their table) takes what came before out of it. All pages
// are of one process, because whoever finds pages of another settles them before writing its own.
//
// Readers see the record table, so what they ask about is settled before; where nothing can be
// written they replay the journal for themselves. They may miss what was committed since, but never
// half of it: a batch is deferred as a whole, or not at all (RecordTable::begin).

#include "base/clock.h"
#include "base/result.h"
#include "store/sqlite/database.h"
#include "store/types.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace nimbus::store::sqlite {

struct TransparentHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};

// A row of the record table as it is to be; see schema.cpp.
struct RecordRow {
  std::string_view partition;
  std::string_view space;
  std::string_view key;
  Version version = 0;
  std::optional<Timestamp> expires_at;
  Timestamp updated_at;
  std::optional<Timestamp> sweep_at;
  std::string_view value;
};

// Writes a row into the record table.
using PutRow = std::function<Result<>(const RecordRow&)>;

// The newest image of a row: its name, and then the rest of it.
struct RowImage {
  std::string bytes;
  std::size_t name_bytes = 0;
  std::uint64_t page = 0;  // where it is

  std::string_view name() const { return std::string_view(bytes).substr(0, name_bytes); }
};

// Deferred rows, by their partition.
class DeferredRows {
 public:
  using Images = std::vector<RowImage>;
  using Partitions = std::unordered_map<std::string, Images, TransparentHash, std::equal_to<>>;

  // Does what the entries of a page say. `only`: of this partition; empty = of all.
  void replay(std::string_view entries, std::string_view only);
  Result<> putAll(const PutRow& put) const;

  Partitions partitions;
};

// What readers are told of the journal. Any thread may use any member.
class DeferredPartitions {
 public:
  DeferredPartitions();

  // Marks the pages of this process.
  std::int64_t writer() const { return writer_; }
  // Whose pages has() knows about: ours, or nobody's.
  std::int64_t knownWriter() const;

  // Whether rows of the partition are missing from their table, in pages that are known.
  bool has(std::string_view partition) const;

  void add(std::string_view partition);
  void remove(const std::vector<std::string>& partitions);
  // Nobody knows what the journal holds, or it holds nothing.
  void setUnknown();
  void setEmpty();

 private:
  const std::int64_t writer_;
  mutable std::mutex mutex_;
  bool unknown_ = true;  // guarded by mutex_, as is
  std::unordered_set<std::string, TransparentHash, std::equal_to<>> partitions_;
};

// Used by the writer's thread, inside its transactions.
class Journal {
 public:
  struct Options {
    // What the journal may hold before its oldest pages are taken out. 0: nothing is deferred.
    std::size_t max_bytes = 4UL * 1024 * 1024;
    // So many transactions after another process has written, nothing is deferred: what one process
    // defers the other has to settle.
    std::uint64_t quiet_transactions = 64;
  };
  Journal(Connection& connection, Options options, DeferredPartitions& deferred, PutRow put);

  // Begins a transaction: settles what another process left, or an earlier life of this one.
  Result<> begin();

  // Whether rows may be deferred now.
  bool isOpen() const { return known_ && quiet_ == 0 && options_.max_bytes > 0; }

  bool has(std::string_view partition) const { return rows_.partitions.contains(partition); }
  bool hasAny() const { return !rows_.partitions.empty(); }

  // Defers the row. Nothing of it is needed afterwards.
  void add(const RecordRow& row);

  // Puts the partition's deferred rows into their table.
  Result<> settle(std::string_view partition);
  Result<> settleAll();

  // Ends a transaction: writes its page, and makes room.
  Result<> write();
  // It was committed.
  void committed();

  // Another process has written, or the transaction was given up: what the journal holds is not
  // known any more.
  void forgetAll();

 private:
  struct Page {
    std::size_t bytes = 0;
    std::size_t images = 0;  // that are the newest of their rows
  };

  Page& pageOf(const RowImage& image) { return pages_[image.page - first_page_]; }
  std::uint64_t currentPage() const { return first_page_ + pages_.size() - 1; }
  Result<> replay();
  Result<> takeOut(std::uint64_t page);
  Result<> makeRoom();

  const Options options_;
  DeferredPartitions& deferred_;
  const PutRow put_;

  bool known_ = false;
  std::uint64_t quiet_ = 0;  // transactions still to come that defer nothing
  DeferredRows rows_;
  std::string page_;        // of this transaction
  std::deque<Page> pages_;  // the last one is this transaction's
  std::uint64_t first_page_ = 1;
  std::size_t bytes_ = 0;             // of all pages but this transaction's
  std::vector<std::string> settled_;  // in this transaction

  Statement add_page_;
  Statement read_page_;
  Statement read_all_;
  Statement remove_pages_;
};

}  // namespace nimbus::store::sqlite
