#include "store/sqlite/queue_table.h"

#include "store/rules.h"

namespace nimbus::store::sqlite {

QueueTable::QueueTable(Connection& connection)
    : load_queue_(connection,
                  "SELECT next_position, waiting, scheduled, parked FROM queue"
                  " WHERE partition=?1 AND name=?2"),
      save_queue_(connection,
                  "INSERT INTO queue(partition, name, next_position, waiting, scheduled, parked)"
                  " VALUES(?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO UPDATE SET"
                  " next_position=?3, waiting=?4, scheduled=?5, parked=?6"),
      load_item_(connection,
                 "SELECT part, position FROM item WHERE partition=?1 AND queue=?2 AND id=?3"),
      insert_item_(connection,
                   "INSERT INTO item(partition, queue, id, part, due_at, position, not_before,"
                   " attempts, reason, payload) VALUES(?1, ?2, ?3, ?4, ?5, ?6, 0, 0, x'', ?7)"),
      to_line_(connection,
               "UPDATE item SET part=0, due_at=0, position=?4, not_before=0, attempts=0,"
               " reason=x'' WHERE partition=?1 AND queue=?2 AND id=?3"),
      defer_(connection,
             "UPDATE item SET not_before=?4, attempts=attempts+1"
             " WHERE partition=?1 AND queue=?2 AND id=?3"),
      park_(connection,
            "UPDATE item SET part=2, not_before=0, reason=?4"
            " WHERE partition=?1 AND queue=?2 AND id=?3"),
      delete_item_(connection, "DELETE FROM item WHERE partition=?1 AND queue=?2 AND id=?3"),
      drop_queues_(connection, "DELETE FROM queue WHERE partition=?1"),
      drop_items_(connection, "DELETE FROM item WHERE partition=?1") {}

std::uint64_t& QueueTable::Queue::count(QueuePart part) {
  switch (part) {
    case QueuePart::Line:
      return info.waiting;
    case QueuePart::Scheduled:
      return info.scheduled;
    case QueuePart::Parked:
      break;
  }
  return info.parked;
}

void QueueTable::begin(std::string_view partition) {
  partition_ = Text{partition};
  queues_.forgetAll();
}

Result<QueueTable::Queue*> QueueTable::queue(std::string_view name) {
  const auto [queue, first_time] = queues_.find(name);
  if (!first_time) return queue;
  auto rows = load_queue_.query(partition_, name);
  NIMBUS_TRY(const bool exists, rows.next());
  if (exists) {
    queue->next_position = rows.unsignedInteger(0);
    queue->info = {rows.unsignedInteger(1), rows.unsignedInteger(2), rows.unsignedInteger(3)};
  }
  return queue;
}

Result<ItemBefore> QueueTable::load(std::string_view queue, std::string_view id) {
  ItemBefore before;
  auto rows = load_item_.query(partition_, queue, id);
  NIMBUS_TRY(before.present, rows.next());
  if (!before.present) return before;
  before.part = static_cast<QueuePart>(rows.integer(0));
  before.position = rows.unsignedInteger(1);
  return before;
}

Result<> QueueTable::plan(std::string_view queue_name, int waiting) {
  NIMBUS_TRY(Queue* const queue, this->queue(queue_name));
  queue->planned_waiting += waiting;
  return {};
}

Result<> QueueTable::checkWithin(const require::QueueWithin& limit) {
  NIMBUS_TRY(const Queue* const queue, this->queue(limit.queue));
  const std::uint64_t before = queue->info.waiting;
  const auto after =
      static_cast<std::uint64_t>(static_cast<std::int64_t>(before) + queue->planned_waiting);
  if (after > limit.max_waiting && after > before) {
    return quotaExceeded("waiting items", limit.max_waiting);
  }
  return {};
}

Result<Queued> QueueTable::push(const op::Push& op, const ItemBefore& before) {
  if (before.present) return Queued{before.position, true};
  NIMBUS_TRY(Queue* const queue, this->queue(op.queue));
  const QueuePart part = op.due_at ? QueuePart::Scheduled : QueuePart::Line;
  const Seq position = queue->next_position++;
  ++queue->count(part);
  queue->changed = true;
  NIMBUS_CHECK(insert_item_.run(partition_, op.queue, op.id, static_cast<std::int64_t>(part),
                                op.due_at.value_or(Timestamp()), position, op.payload));
  return Queued{position, false};
}

Result<Queued> QueueTable::moveToLine(std::string_view queue_name, std::string_view id,
                                      const ItemBefore& before) {
  NIMBUS_TRY(Queue* const queue, this->queue(queue_name));
  const Seq position = queue->next_position++;
  --queue->count(before.part);
  ++queue->count(QueuePart::Line);
  queue->changed = true;
  NIMBUS_CHECK(to_line_.run(partition_, queue_name, id, position));
  return Queued{position, false};
}

Result<> QueueTable::defer(const op::Defer& op) {
  NIMBUS_CHECK(defer_.run(partition_, op.queue, op.id, op.not_before));
  return {};
}

Result<> QueueTable::park(const op::Park& op) {
  NIMBUS_TRY(Queue* const queue, this->queue(op.queue));
  --queue->count(QueuePart::Line);
  ++queue->count(QueuePart::Parked);
  queue->changed = true;
  NIMBUS_CHECK(park_.run(partition_, op.queue, op.id, op.reason));
  return {};
}

Result<Removed> QueueTable::complete(const op::Complete& op, const ItemBefore& before) {
  NIMBUS_TRY(Queue* const queue, this->queue(op.queue));
  --queue->count(before.part);
  queue->changed = true;
  NIMBUS_CHECK(delete_item_.run(partition_, op.queue, op.id));
  return Removed{1};
}

Result<> QueueTable::finish() {
  for (const Queue& queue : queues_) {
    if (!queue.changed) continue;
    NIMBUS_CHECK(save_queue_.run(partition_, queue.name, queue.next_position, queue.info.waiting,
                                 queue.info.scheduled, queue.info.parked));
  }
  return {};
}

Result<> QueueTable::dropPartition(std::string_view partition) {
  NIMBUS_CHECK(drop_items_.run(Text{partition}));
  NIMBUS_CHECK(drop_queues_.run(Text{partition}));
  return {};
}

}  // namespace nimbus::store::sqlite
