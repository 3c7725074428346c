#include "store/sqlite/reader_pool.h"

#include "base/log.h"

namespace nimbus::store::sqlite {

ReaderPool::ReaderPool(std::size_t count, FailStop fail_stop)
    : fail_stop_(std::move(fail_stop)), threads_(count) {
  idle_.reserve(count);
}

Result<std::unique_ptr<ReaderPool>> ReaderPool::open(const std::filesystem::path& path,
                                                     std::size_t count, FailStop fail_stop) {
  auto pool = std::unique_ptr<ReaderPool>(new ReaderPool(count, std::move(fail_stop)));
  for (std::size_t i = 0; i < count; ++i) {
    NIMBUS_TRY(auto reader, Reader::open(path));
    pool->idle_.push_back(std::move(reader));
  }
  return pool;
}

ReaderPool::Loan::Loan(ReaderPool& pool) : pool_(pool) {
  const std::lock_guard lock(pool_.mutex_);
  NIMBUS_ASSERT(!pool_.idle_.empty(), "there are as many readers as threads");
  reader_ = std::move(pool_.idle_.back());
  pool_.idle_.pop_back();
}

ReaderPool::Loan::~Loan() {
  const std::lock_guard lock(pool_.mutex_);
  pool_.idle_.push_back(std::move(reader_));
}

Error ReaderPool::failed(const Error& error) const {
  if (!isDatabaseError(error)) return error;
  fail_stop_.check(error);
  log::error("a read failed", {{"reason", error.message()}});
  return forCallers(error, Outcome::NotApplied);
}

}  // namespace nimbus::store::sqlite
