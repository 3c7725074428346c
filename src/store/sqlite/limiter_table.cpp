#include "store/sqlite/limiter_table.h"

#include <utility>
#include <vector>

namespace nimbus::store::sqlite {

LimiterTable::LimiterTable(Connection& connection)
    : load_(connection, "SELECT arrival_us FROM limiter WHERE partition=?1 AND name=?2"),
      save_(connection,
            "INSERT INTO limiter(partition, name, arrival_us) VALUES(?1, ?2, ?3)"
            " ON CONFLICT DO UPDATE SET arrival_us=?3"),
      drop_(connection, "DELETE FROM limiter WHERE partition=?1"),
      walk_(connection,
            "SELECT partition, name, arrival_us FROM limiter WHERE (partition, name)>(?1, ?2)"
            " ORDER BY partition, name LIMIT ?3"),
      remove_(connection, "DELETE FROM limiter WHERE partition=?1 AND name=?2") {}

Result<std::int64_t> LimiterTable::load(std::string_view partition, std::string_view limiter) {
  auto rows = load_.query(Text{partition}, limiter);
  NIMBUS_TRY(const bool present, rows.next());
  return present ? rows.integer(0) : std::int64_t{0};
}

Result<> LimiterTable::save(std::string_view partition, std::string_view limiter,
                            std::int64_t arrival_us) {
  NIMBUS_CHECK(save_.run(Text{partition}, limiter, arrival_us));
  return {};
}

Result<> LimiterTable::dropPartition(std::string_view partition) {
  NIMBUS_CHECK(drop_.run(Text{partition}));
  return {};
}

Result<LimiterTable::Step> LimiterTable::sweep(Timestamp now, std::uint64_t limit) {
  const auto now_us =
      std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count();
  std::vector<std::pair<std::string, std::string>> full;
  Step step;
  std::uint64_t seen = 0;
  {
    auto rows = walk_.query(Text{after_partition_}, std::string_view(after_name_), limit);
    std::string last_partition;
    std::string last_name;
    while (true) {
      NIMBUS_TRY(const bool more, rows.next());
      if (!more) break;
      ++seen;
      last_partition = rows.bytes(0);
      last_name = rows.bytes(1);
      if (rows.integer(2) <= now_us) full.emplace_back(last_partition, last_name);
    }
    // At the end the walk begins anew.
    step.all_round = seen < limit;
    if (step.all_round) last_partition = last_name = std::string();
    after_partition_ = std::move(last_partition);
    after_name_ = std::move(last_name);
  }
  for (const auto& [partition, name] : full) {
    NIMBUS_CHECK(remove_.run(Text{partition}, std::string_view(name)));
  }
  step.removed = full.size();
  return step;
}

}  // namespace nimbus::store::sqlite
