#include "gateway/device_events.h"

#include "base/json.h"
#include "base/time_text.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <utility>

namespace nimbus::gateway {
namespace {

namespace asio = boost::asio;

constexpr const char* kEvents = "events";
constexpr const char* kCursors = "cursors";
constexpr const char* kAcknowledged = "acknowledged";
// How often an append is tried that others overtake.
constexpr int kAttempts = 20;

store::Partition partitionOf(std::string_view device) {
  return {"device", {device}};
}

// Ends when it is rung, from any thread, or when its time is over.
class Wait : public std::enable_shared_from_this<Wait> {
 public:
  Wait(const asio::any_io_executor& executor, asio::steady_timer::time_point until)
      : timer_(executor, until) {}

  void ring() {
    asio::post(timer_.get_executor(), [self = shared_from_this()] {
      self->has_rung_ = true;
      self->timer_.cancel();
    });
  }
  // True if it was rung since the last time.
  Task<bool> rung() {
    if (!has_rung_) co_await timer_.async_wait(asio::as_tuple(asio::use_awaitable));
    co_return std::exchange(has_rung_, false);
  }

 private:
  asio::steady_timer timer_;
  bool has_rung_ = false;
};

store::Seq acknowledgedIn(const std::optional<store::Record>& record) {
  store::Seq seq = 0;
  if (record)
    std::from_chars(record->value.data(), record->value.data() + record->value.size(), seq);
  return seq;
}

bool isTooOld(const store::Entry& entry, Timestamp now) {
  const auto value = parseJson(entry.value);
  const auto created = value ? value->string("created_at") : std::nullopt;
  const auto time = created ? parseTime(*created) : Result<Timestamp>(Timestamp());
  return time && *time + DeviceEvents::kKeptFor <= now;
}

Error noSuchEvent(std::string_view parameter) {
  return Error(Code::InvalidArgument, fmt::format("{}: there was no such event yet", parameter))
      .with("parameter", std::string(parameter));
}

}  // namespace

Task<Result<store::Seq>> DeviceEvents::append(std::string device, std::string id,
                                              std::string event) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    store::query::GetLogInfo query{kEvents};
    NIMBUS_CO_TRY(const auto info, co_await store::ask<store::LogInfo>(store_, partitionOf(device),
                                                                       std::move(query)));
    store::Batch batch;
    batch.conditions.emplace_back(store::require::LogEndsAt{kEvents, info.last_seq});
    if (info.last_seq >= kMostKept) {
      batch.operations.emplace_back(
          store::op::RemoveRange{kEvents, 1, info.last_seq + 1 - kMostKept});
    }
    batch.operations.emplace_back(store::op::Append{kEvents, id, event, {}, ""});
    store::PendingCommit commit =
        store_.commit(partitionOf(device), std::nullopt, std::move(batch));
    const auto done = co_await commit.done();
    if (done) co_return std::get<store::Appended>(done->results.back()).seq;
    if (done.error().code() != Code::Conflict) co_return done.error();
  }
  co_return Error(Code::Unavailable, "too many events for this device at once");
}

Task<Result<>> DeviceEvents::acknowledge(std::string device, store::Seq seq,
                                         std::optional<store::Record> before) {
  store::Batch batch;
  const store::Version expected = before ? before->version : 0;
  batch.operations.emplace_back(
      store::op::Put{kCursors, kAcknowledged, std::to_string(seq), {}, expected});
  batch.operations.emplace_back(store::op::RemoveRange{kEvents, 1, seq});
  store::PendingCommit commit = store_.commit(partitionOf(device), std::nullopt, std::move(batch));
  const auto done = co_await commit.done();
  if (!done) co_return done.error();
  co_return Result<>();
}

Task<Result<DeviceEvents::Fetched>> DeviceEvents::fetch(std::string device, Poll poll) {
  store::query::ScanLog scan;
  scan.log = kEvents;
  scan.from = std::max(poll.since, poll.ack.value_or(0)) + 1;
  scan.limit = poll.limit;
  std::vector<store::Query> queries;
  queries.emplace_back(store::query::GetLogInfo{kEvents});
  queries.emplace_back(store::query::GetRecord{kCursors, kAcknowledged});
  queries.emplace_back(std::move(scan));
  NIMBUS_CO_TRY(const auto answers, co_await store_.read(partitionOf(device), std::move(queries)));
  const store::Seq last = std::get<store::LogInfo>(answers[0]).last_seq;
  const auto& record = std::get<std::optional<store::Record>>(answers[1]);
  if (poll.since > last) co_return noSuchEvent("since");
  if (poll.ack.value_or(0) > last) co_return noSuchEvent("ack");
  store::Seq acknowledged = acknowledgedIn(record);
  if (poll.ack.value_or(0) > acknowledged) {
    acknowledged = *poll.ack;
    // Whoever overtook us acknowledged too; what is not written now comes once more.
    const auto done = co_await acknowledge(device, acknowledged, record);
    if (!done && done.error().code() != Code::VersionConflict) co_return done.error();
  }
  Fetched fetched;
  fetched.cursor = std::max(poll.since, acknowledged);
  const auto& page = std::get<store::EntryPage>(answers[2]);
  const Timestamp now = store_.now();
  for (const store::Entry& entry : page.items) {
    if (entry.seq <= fetched.cursor) continue;
    if (isTooOld(entry, now)) continue;  // counted with the next that is not
    fetched.dropped += entry.seq - fetched.cursor - 1;
    fetched.cursor = entry.seq;
    fetched.events.push_back(
        fmt::format(R"({{"id":{},{})", entry.seq, std::string_view(entry.value).substr(1)));
  }
  // With nothing left behind the cursor, what it is behind of was dropped.
  const store::Seq seen = page.more ? page.items.back().seq : last;
  if (fetched.events.empty() && seen > fetched.cursor) {
    fetched.dropped = seen - fetched.cursor;
    fetched.cursor = seen;
  }
  co_return fetched;
}

Task<Result<DeviceEvents::Fetched>> DeviceEvents::poll(std::string device, Poll poll) {
  const auto until = asio::steady_timer::clock_type::now() + poll.wait;
  const auto wait = std::make_shared<Wait>(co_await asio::this_coro::executor, until);
  std::unique_ptr<store::Watch> watch;
  if (poll.wait > Millis(0)) {
    watch = store_.watch(partitionOf(device), [wait] { wait->ring(); });
  }
  while (true) {
    NIMBUS_CO_TRY(Fetched fetched, co_await fetch(device, poll));
    if (!fetched.events.empty() || fetched.dropped > 0 || !watch) co_return fetched;
    if (asio::steady_timer::clock_type::now() >= until) co_return fetched;
    if (!co_await wait->rung()) watch.reset();  // a last look, for what nobody told us of
  }
}

Task<Result<>> DeviceEvents::remove(std::string device) {
  store::Batch batch;
  batch.operations.emplace_back(store::op::DropPartition{});
  store::PendingCommit commit = store_.commit(partitionOf(device), std::nullopt, std::move(batch));
  const auto done = co_await commit.done();
  if (!done) co_return done.error();
  co_return Result<>();
}

}  // namespace nimbus::gateway
