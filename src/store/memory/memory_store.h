#pragma once
// The Store in plain containers: the specification of the port, in executable form. Every
// operation is written as simply as it can be said, and other backends are held against it. Also
// what tests and `nimbus dev` use where nothing needs to outlive the process.

#include "base/clock.h"
#include "store/store.h"

#include <memory>

namespace nimbus::store::memory {

class MemoryStore final : public Store {
 public:
  // `clock` must outlive the store.
  explicit MemoryStore(const Clock& clock);
  ~MemoryStore() override;
  MemoryStore(const MemoryStore&) = delete;
  MemoryStore& operator=(const MemoryStore&) = delete;

  Description describe() const override;
  Timestamp now() const override;
  Task<Result<std::vector<Answer>>> read(Partition partition, std::vector<Query> queries) override;
  Task<Result<DirectoryPage>> readDirectory(std::string directory, std::string after,
                                            std::string prefix, std::size_t limit) override;
  std::unique_ptr<Watch> watch(Partition partition, std::function<void()> changed) override;
  Task<Result<Swept>> sweep(Millis budget) override;
  Task<Result<>> check() override;

 private:
  PendingCommit begin(CommitOrder order) override;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nimbus::store::memory
