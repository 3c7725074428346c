// Copies of sessions.
//
// The copy is no session before it is complete: its record comes last. The lease keeps two forks
// into one name apart, and ends what a crash left half done. Events are copied page by page while
// others go on appending; that changes nothing of what is copied. If somebody edits or removes
// events meanwhile, the copy begins anew: what it becomes is the session as it was at one moment.

#include "base/json_text.h"
#include "events/sessions.h"
#include "events/shared_state.h"

#include <fmt/format.h>

#include <utility>

namespace nimbus::events {
namespace {

constexpr const char* kForkLease = "events-fork";
constexpr std::chrono::seconds kForkPatience{60};
constexpr std::size_t kCopied = 100;  // at once: events may be large
constexpr int kCopies = 20;           // that may be begun

Error noSeq(store::Seq seq, store::Seq last) {
  return Error(Code::NotFound, fmt::format("there is no event with seq {}", seq))
      .with("last_seq", static_cast<std::int64_t>(last));
}

store::op::Append copyOf(store::Entry entry) {
  store::op::Append append;
  append.log = kEventLog;
  append.id = std::move(entry.id);
  append.value = std::move(entry.value);
  append.terms = std::move(entry.terms);
  append.fingerprint = std::move(entry.fingerprint);
  return append;
}

}  // namespace

// What is copied, as it was at one moment.
struct Sessions::Source {
  Session session;
  store::LogInfo info;
  std::vector<Change> state;
};

Task<Result<Sessions::Source>> Sessions::openSource(SessionName name) {
  std::vector<store::Query> queries;
  queries.emplace_back(store::query::GetLogInfo{kEventLog});
  store::query::ScanRecords scan;
  scan.space = kStateSpace;
  scan.limit = kMaxStateKeys;
  queries.emplace_back(std::move(scan));
  NIMBUS_CO_TRY(const Opened opened, co_await openSession(store_, name, std::move(queries)));
  Source source{opened.session, opened.get<store::LogInfo>(0), {}};
  for (const store::Record& record : opened.get<store::RecordPage>(1).items) {
    source.state.push_back({record.key, record.value});
  }
  co_return source;
}

// Takes the name for a copy; removes what was left there.
Task<Result<store::Fence>> Sessions::beginCopy(SessionName to) {
  NIMBUS_CO_TRY(store::Batch begin, co_await clearing(to));
  store::op::Acquire acquire;
  acquire.lease = kForkLease;
  acquire.holder = random_.base36(16);
  acquire.nonce = random_.next();
  acquire.ttl = kForkPatience;
  const std::size_t acquired = begin.operations.size();
  begin.operations.emplace_back(std::move(acquire));
  auto pending = store_.commit(to.partition(), std::nullopt, std::move(begin));
  const auto begun = co_await pending.done();
  if (begun) co_return store::Fence{kForkLease, begun->get<store::LeaseGranted>(acquired).token};
  const bool is_held = begun.error().code() == Code::Conflict;
  co_return is_held ? Error(Code::Conflict, "another fork into this name is under way")
                    : begun.error();
}

// Every page renews the lease: however long the log is, nobody else begins meanwhile.
Task<Result<>> Sessions::copyEvents(SessionName from, store::Seq last, SessionName to,
                                    store::Fence fence) {
  store::query::ScanLog scan;
  scan.log = kEventLog;
  scan.to = last;
  scan.limit = kCopied;
  while (true) {
    NIMBUS_CO_TRY(store::EntryPage page,
                  co_await store::ask<store::EntryPage>(store_, from.partition(), scan));
    if (page.items.empty()) co_return Result<>();
    scan.from = page.items.back().seq + 1;
    store::Batch batch = ifThereIsNone();
    batch.operations.emplace_back(store::op::Renew{fence.lease, fence.token, kForkPatience});
    for (store::Entry& entry : page.items) batch.operations.emplace_back(copyOf(std::move(entry)));
    auto pending = store_.commit(to.partition(), fence, std::move(batch));
    const auto done = co_await pending.done();
    if (!done) co_return isOvertaken(done.error()) ? sessionExists(to) : done.error();
    if (!page.more) co_return Result<>();
  }
}

// Whether what was copied is still what the source held when the copy began.
Task<Result<bool>> Sessions::isUnedited(SessionName name, std::uint64_t generation,
                                        std::uint64_t edits) {
  std::vector<store::Query> queries;
  queries.emplace_back(store::query::GetLogInfo{kEventLog});
  NIMBUS_CO_TRY(const Opened now,
                co_await openSession(store_, std::move(name), std::move(queries)));
  co_return now.session.generation == generation&& now.get<store::LogInfo>(0).edits() == edits;
}

Task<Result<>> Sessions::discardCopy(SessionName name, store::Fence fence, bool is_over) {
  store::Batch batch = ifThereIsNone();
  batch.operations.emplace_back(store::op::DropLog{kEventLog});
  if (is_over) batch.operations.emplace_back(store::op::Release{fence.lease, fence.token});
  auto pending = store_.commit(name.partition(), std::move(fence), std::move(batch));
  NIMBUS_CO_CHECK(co_await pending.done());
  co_return Result<>();
}

Task<Result<Session>> Sessions::copy(SessionName from, std::optional<store::Seq> at_seq,
                                     SessionName name, NewSession to, store::Fence fence) {
  for (int copy = 0; copy < kCopies; ++copy) {
    NIMBUS_CO_TRY(Source source, co_await openSource(from));
    const store::Seq last = at_seq.value_or(source.info.last_seq);
    if (last > source.info.last_seq) co_return noSeq(last, source.info.last_seq);
    NIMBUS_CO_CHECK(co_await copyEvents(from, last, name, fence));
    NIMBUS_CO_TRY(const bool is_exact,
                  co_await isUnedited(from, source.session.generation, source.info.edits()));
    if (is_exact) {
      if (to.title.empty()) to.title = source.session.title;
      to.state.session = std::move(source.state);
      co_return co_await make(std::move(name), std::move(to), std::move(fence), false);
    }
    NIMBUS_CO_CHECK(co_await discardCopy(name, fence, false));
  }
  co_return tooContended();
}

Task<Result<Session>> Sessions::fork(SessionName from, std::optional<store::Seq> at_seq,
                                     NewSession to) {
  NIMBUS_CO_CHECK(co_await openSession(store_, from, std::vector<store::Query>()));
  SessionName name{from.app, from.user, to.id};
  if (name.id.empty()) name.id = "ses_" + random_.base36(20);
  if (name == from) co_return sessionExists(name);
  NIMBUS_CO_TRY(const Turns::Turn turn, co_await turns_.take(name.partition().name()));
  NIMBUS_CO_TRY(const store::Fence fence, co_await beginCopy(name));
  auto forked = co_await copy(std::move(from), at_seq, name, std::move(to), fence);
  // If even this fails, the lease runs out, and the next who wants the name removes what is left.
  if (!forked) static_cast<void>(co_await discardCopy(std::move(name), fence, true));
  co_return forked;
}

}  // namespace nimbus::events
