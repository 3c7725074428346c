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

  // Looks at up to `limit` limiters, beginning where it stopped last, and removes those that are
  // full again. The number removed. An index would cost every request; a walk costs none.
  Result<std::uint64_t> sweep(Timestamp now, std::uint64_t limit);

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
