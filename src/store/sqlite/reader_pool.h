#pragma once
// Threads that may wait for the disk, so that those of the server need not. Each has a Reader.

#include "base/one_shot.h"
#include "base/result.h"
#include "base/task.h"
#include "store/sqlite/fail_stop.h"
#include "store/sqlite/reader.h"

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include <cstddef>
#include <exception>
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
  //
  // Not by co_spawn: that hands a cancellation on to the other thread, where it may meet the end of
  // the work.
  template <typename Ask>
  auto with(Ask ask) -> Task<std::invoke_result_t<Ask, Reader&>> {
    using Answer = std::invoke_result_t<Ask, Reader&>;
    const auto done = std::make_shared<OneShot<Reply<Answer>>>();
    boost::asio::post(threads_, [this, done, ask = std::move(ask)] { done->set(run(ask)); });
    Reply<Answer> reply = co_await done->wait(done);
    if (reply.thrown) std::rethrow_exception(reply.thrown);
    co_return std::move(reply.answer);
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

  template <typename Answer>
  struct Reply {
    Answer answer;
    std::exception_ptr thrown;
  };

  template <typename Ask>
  auto run(const Ask& ask) -> Reply<std::invoke_result_t<Ask, Reader&>> {
    Reply<std::invoke_result_t<Ask, Reader&>> reply;
    try {
      const Loan reader(*this);
      reply.answer = ask(*reader);
      if (!reply.answer) reply.answer = failed(reply.answer.error());
    } catch (...) {
      reply.thrown = std::current_exception();
    }
    return reply;
  }

  Error failed(const Error& error) const;

  const FailStop fail_stop_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Reader>> idle_;  // guarded by mutex_; has room for all
  boost::asio::thread_pool threads_;
};

}  // namespace nimbus::store::sqlite
