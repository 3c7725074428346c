#pragma once
// Queues: the tables `queue` and `item`.

#include "base/result.h"
#include "store/batch.h"
#include "store/sqlite/database.h"
#include "store/sqlite/met.h"
#include "store/types.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace nimbus::store::sqlite {

// An item as it was before the batch.
struct ItemBefore {
  bool present = false;
  QueuePart part = QueuePart::Line;
  Seq position = 0;

  bool isIn(QueuePart wanted) const { return present && part == wanted; }
};

class QueueTable {
 public:
  explicit QueueTable(Connection& connection);

  // Starts a batch. `partition` must outlive it.
  void begin(std::string_view partition);

  Result<ItemBefore> load(std::string_view queue, std::string_view id);

  // How the batch would change the length of the line, told before the first write.
  Result<> plan(std::string_view queue_name, int waiting);
  Result<> checkWithin(const require::QueueWithin& limit);

  Result<Queued> push(const op::Push& op, const ItemBefore& before);
  // From Scheduled or Parked into the line.
  Result<Queued> moveToLine(std::string_view queue_name, std::string_view id,
                            const ItemBefore& before);
  Result<> defer(const op::Defer& op);
  Result<> park(const op::Park& op);
  Result<Removed> complete(const op::Complete& op, const ItemBefore& before);

  // Writes the counters of the queues that changed. The last step of a batch.
  Result<> finish();

  Result<> dropPartition(std::string_view partition);

 private:
  // What this batch knows of one queue.
  struct Queue {
    std::string_view name;
    bool changed = false;
    Seq next_position = 1;
    QueueInfo info;
    std::int64_t planned_waiting = 0;

    std::uint64_t& count(QueuePart part);
  };

  Result<Queue*> queue(std::string_view name);

  Text partition_;
  Met<Queue> queues_;

  Statement load_queue_;
  Statement save_queue_;
  Statement load_item_;
  Statement insert_item_;
  Statement to_line_;
  Statement defer_;
  Statement park_;
  Statement delete_item_;
  Statement drop_queues_;
  Statement drop_items_;
};

}  // namespace nimbus::store::sqlite
