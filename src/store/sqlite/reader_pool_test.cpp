#include "store/sqlite/reader_pool.h"

#include "base/testing/manual_clock.h"
#include "base/testing/temporary_directory.h"
#include "store/sqlite/sqlite_store.h"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <gmock/gmock.h>

#include <stdexcept>

namespace nimbus::store::sqlite {
namespace {

namespace asio = boost::asio;

template <typename T>
T finish(Task<T> task) {
  asio::io_context io(1);
  auto result = asio::co_spawn(io, std::move(task), asio::use_future);
  io.run();
  return result.get();
}

TEST(ReaderPoolTest, AReaderWhoseUserThrewIsNotLost) {
  const ManualClock clock;
  const TemporaryDirectory directory;
  Options options;
  options.path = directory.path() / "nimbus.db";
  ASSERT_TRUE(SqliteStore::open(options, clock));
  const auto pool = *ReaderPool::open(options.path, 1, FailStop());
  const auto throws = [](Reader&) -> Result<int> { throw std::runtime_error("out of memory"); };
  const auto works = [](Reader& reader) { return reader.readDirectory("d", "", "", 1); };
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(static_cast<void>(finish(pool->with(throws))), std::runtime_error);
  };
  EXPECT_TRUE(finish(pool->with(works)));
}

TEST(ReaderPoolTest, AReadWhoseTaskIsCancelledEndsAsAnyOther) {
  const ManualClock clock;
  const TemporaryDirectory directory;
  Options options;
  options.path = directory.path() / "nimbus.db";
  const auto store = *SqliteStore::open(options, clock);
  for (int i = 0; i < 500; ++i) {
    asio::io_context io(1);
    asio::cancellation_signal cancel;
    bool ended = false;
    const auto note = [&](const std::exception_ptr&, const Result<DirectoryPage>&) {
      ended = true;
    };
    asio::co_spawn(io, store->readDirectory("d", "", "", 1),
                   asio::bind_cancellation_slot(cancel.slot(), note));
    io.poll();
    cancel.emit(asio::cancellation_type::terminal);
    io.run();
    ASSERT_TRUE(ended);
  }
}

}  // namespace
}  // namespace nimbus::store::sqlite
