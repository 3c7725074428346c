#pragma once
// A store that passes everything on to another: tests derive from it what goes wrong in theirs.

#include "store/store.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace nimbus::store {

class AlteredStore : public Store {
 public:
  // Which must outlive it.
  explicit AlteredStore(Store& inner) : inner_(inner) {}

  Description describe() const override { return inner_.describe(); }
  Timestamp now() const override { return inner_.now(); }
  Task<Result<std::vector<Answer>>> read(Partition partition, std::vector<Query> queries) override {
    return inner_.read(std::move(partition), std::move(queries));
  }
  Task<Result<DirectoryPage>> readDirectory(std::string directory, std::string after,
                                            std::string prefix, std::size_t limit) override {
    return inner_.readDirectory(std::move(directory), std::move(after), std::move(prefix), limit);
  }
  std::unique_ptr<Watch> watch(Partition partition, std::function<void()> changed) override {
    return inner_.watch(std::move(partition), std::move(changed));
  }
  Task<Result<Swept>> sweep(Millis budget) override { return inner_.sweep(budget); }
  Task<Result<>> check() override { return inner_.check(); }

 protected:
  PendingCommit passOn(CommitOrder order) {
    if (order.fence) {
      return inner_.commit(std::move(order.partition), std::move(order.fence),
                           std::move(order.batch));
    }
    return inner_.commit(std::move(order.partition), std::move(order.batch),
                         std::move(order.chained));
  }
  static PendingCommit refuse(CommitOrder order, Error error) {
    auto state = std::make_shared<CommitState>(std::move(order.chained.listener));
    state->refuse(std::move(error));
    return PendingCommit(std::move(state));
  }

 private:
  PendingCommit begin(CommitOrder order) override { return passOn(std::move(order)); }

  Store& inner_;
};

}  // namespace nimbus::store
