#pragma once
// Threads that may wait for the disk, so that those of the server need not. Each has a Reader.

#include "base/result.h"
#include "base/task.h"
#include "store/sqlite/fail_stop.h"
#include "store/sqlite/reader.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

namespace nimbus::store::sqlite {

// Any thread.
class ReaderPool {
 public:
  static Result<std::unique_ptr<ReaderPool>> open(const std::filesystem::path& path,
                                                  std::size_t count, FailStop fail_stop);
  // Every with() must have completed.
  ~ReaderPool() { threads_.join(); }
  ReaderPool(const ReaderPool&) = delete;
  ReaderPool& operator=(const ReaderPool&) = delete;

  // Runs `ask(reader)`, which answers a Result, on a thread of the pool. Whatever `ask` refers to
  // must outlive the task. Errors of the database come back as callers may see them.
  template <typename Ask>
  auto with(Ask ask) -> Task<std::invoke_result_t<Ask, Reader&>> {
    auto work = run(std::move(ask));
    co_return co_await boost::asio::co_spawn(threads_, std::move(work), boost::asio::use_awaitable);
  }

 private:
  // A Reader that is nobody else's. There are as many as threads: one is idle when a thread asks.
  class Loan {
   public:
    explicit Loan(ReaderPool& pool);
    ~Loan();
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;

    Reader& operator*() const { return *reader_; }

   private:
    ReaderPool& pool_;
    std::unique_ptr<Reader> reader_;
  };

  ReaderPool(std::size_t count, FailStop fail_stop);

  template <typename Ask>
  auto run(Ask ask) -> Task<std::invoke_result_t<Ask, Reader&>> {
    const Loan reader(*this);
    auto answer = ask(*reader);
    if (!answer) co_return failed(answer.error());
    co_return answer;
  }

  Error failed(const Error& error) const;

  const FailStop fail_stop_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Reader>> idle_;  // guarded by mutex_; has room for all
  boost::asio::thread_pool threads_;
};

}  // namespace nimbus::store::sqlite
