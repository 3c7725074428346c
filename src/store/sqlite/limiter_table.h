#pragma once
// Limiters: the table `limiter`.

#include "base/result.h"
#include "store/rules.h"
#include "store/sqlite/database.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace nimbus::store::sqlite {

class LimiterTable {
 public:
  explicit LimiterTable(Connection& connection);

  Result<std::int64_t> load(std::string_view partition, std::string_view limiter);
  Result<> save(std::string_view partition, std::string_view limiter, std::int64_t arrival_us);
  Result<> dropPartition(std::string_view partition);

  // One step of a walk around the table: looks at up to `limit` limiters, beginning where the last
  // step stopped, and removes those that are full again. An index would cost every request; a walk
  // costs none.
  struct Step {
    std::uint64_t removed = 0;
    bool all_round = false;  // the step came to the end; the next begins a new round
  };
  Result<Step> sweep(Timestamp now, std::uint64_t limit);

 private:
  Statement load_;
  Statement save_;
  Statement drop_;
  Statement walk_;
  Statement remove_;
  // Where the walk goes on.
  std::string after_partition_;
  std::string after_name_;
};

}  // namespace nimbus::store::sqlite
