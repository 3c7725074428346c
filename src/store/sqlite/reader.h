#pragma once
// Answers queries from one read-only connection.

#include "base/result.h"
#include "store/query.h"
#include "store/sqlite/database.h"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::store::sqlite {

// Used by one thread at a time.
class Reader {
 public:
  static Result<std::unique_ptr<Reader>> open(const std::filesystem::path& path);

  // All answers come from one snapshot; see journal.h for what it holds.
  Result<std::vector<Answer>> read(std::string_view partition, const std::vector<Query>& queries,
                                   Timestamp now);
  // The same, unless another writer than this has deferred rows in that snapshot: then nothing.
  Result<std::optional<std::vector<Answer>>> read(std::string_view partition,
                                                  const std::vector<Query>& queries, Timestamp now,
                                                  std::int64_t writer);
  // The same for when what is deferred cannot be settled: slow.
  Result<std::vector<Answer>> readReplayed(std::string_view partition,
                                           const std::vector<Query>& queries, Timestamp now);

  Result<DirectoryPage> readDirectory(std::string_view directory, const std::string& after,
                                      const std::string& prefix, std::size_t limit);

 private:
  explicit Reader(Connection connection);

  struct Answering;
  struct Statements;

  Result<std::vector<Answer>> answerAll(std::string_view partition,
                                        const std::vector<Query>& queries, Timestamp now);

  Result<> copyReplayed(std::string_view partition);

  Connection connection_;
  std::shared_ptr<Statements> statements_;
};

}  // namespace nimbus::store::sqlite
