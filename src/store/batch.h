#pragma once
// A change to one partition: what must hold, and what is then done, all or nothing.
//
// Every condition is checked, against the partition as it was before the batch, before the first
// write. So no backend needs to undo anything, and a script in Redis, which cannot undo, is as
// atomic as a transaction. From this follow two rules, and validate() refuses what breaks them:
// - A batch touches each record, entry, item, lease and limiter at most once. Appends to one log
//   and pushes to one queue may be many; they take their places in the order given.
// - What removes many at once (EraseSpace, RemoveRange, RemoveTerm, DropLog) goes with nothing else
//   on that space or log, except that puts and adds may follow an EraseSpace, and appends a
//   RemoveRange or RemoveTerm; these then find the removal done.
//
// Refusals, all with Outcome::NotApplied:
//   Fenced            the fence does not hold
//   VersionConflict   an expected version differs; field `current_version` (0 = absent)
//   Conflict          a lease is held, a log moved, an id is taken by another body, a record may
//   not
//                     take its version; field `current_version`: the one to be above
//   NotFound          something that must exist does not
//   InvalidArgument   not an integer, an overflow, a malformed batch
//   QuotaExceeded     a space or queue would exceed its limit; field `limit`
//   RateLimited       a limiter is empty; fields `retry_after_ms`, `reset_after_ms`
// The field `operation` is the index of the operation that was refused, `condition` that of the
// condition.

#include "base/clock.h"
#include "base/result.h"
#include "store/types.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace nimbus::store {

namespace require {

// The record has exactly this version; 0 = it does not exist (or has expired).
struct RecordVersion {
  std::string space;
  std::string key;
  Version version = 0;
};

// After the batch the space holds no more than this, expired records not counted. 0 = no limit.
// A batch that does not grow what is over the limit already is let through.
struct SpaceWithin {
  std::string space;
  std::uint64_t max_records = 0;
  std::uint64_t max_bytes = 0;
};

// No entry was appended since: the newest ever has this seq. Field `last_seq` tells otherwise.
struct LogEndsAt {
  std::string log;
  Seq last_seq = 0;
};

// The log did not change at all since. Field `revision` tells otherwise.
struct LogUnchanged {
  std::string log;
  std::uint64_t revision = 0;
};

// After the batch at most this many items wait in the line; 0 = none. A batch that does not make it
// longer is let through.
struct QueueWithin {
  std::string queue;
  std::uint64_t max_waiting = 0;
};

}  // namespace require

using Condition = std::variant<require::RecordVersion, require::SpaceWithin, require::LogEndsAt,
                               require::LogUnchanged, require::QueueWithin>;

namespace op {

// ---- records. A write gives the record the version after its last one, also if it has expired
// since. One that is new, also after deletion or a sweep, gets a version above all that were ever
// removed from its space. So a version never comes back for a key. `expected`: as
// require::RecordVersion.
//
// An owner that keeps records in memory hands out versions before it commits, perhaps several for
// one key. `version` then says which one the record takes, and `last`, where it is removed, the
// highest that it was given. A version is refused (Conflict) unless it is above the record's own,
// also if that has expired since; where there is no record, above the space's floor (see Usage). Of
// the batch's own removals only an EraseSpace raises the floor for this. A sweep can raise it at
// any time, up to the versions of records that expire: an owner stays above these, too.

struct Put {
  std::string space;
  std::string key;
  std::string value;
  Expiry expiry;
  std::optional<Version> expected;
  std::optional<Version> version = std::nullopt;  // it takes; absent = the next, see above
};

// Removing what is not there is no error, unless a version was expected.
struct Erase {
  std::string space;
  std::string key;
  std::optional<Version> expected;
  // The floor becomes at least this, also if there is no such record. What was stored needs no
  // mention.
  Version last = 0;
};

// Removes every record of the space. Puts and adds to the same space that follow in the batch find
// it empty; they must not carry an expected version.
struct EraseSpace {
  std::string space;
  Version last = 0;  // of all its keys; as for Erase
};

// Adds to a record that holds a decimal int64 (no sign but '-', no leading zero). A missing one
// counts as 0. Refused with InvalidArgument if it holds anything else or would overflow.
struct Add {
  std::string space;
  std::string key;
  std::int64_t delta = 0;
  Expiry expiry{.at = std::nullopt, .keep_existing = true};
  std::optional<Version> expected;
};

// Changes only the expiry (and the version). NotFound if there is no record.
struct Touch {
  std::string space;
  std::string key;
  std::optional<Timestamp> expires_at;  // absent = never
  std::optional<Version> expected;
  std::optional<Version> version = std::nullopt;  // as for Put
};

// ---- log

// An id that is there already, with the same fingerprint, is a repetition: nothing is written and
// the answer is that of the first time. Another fingerprint is a Conflict with field `seq`.
struct Append {
  std::string log;
  std::string id;
  std::string value;
  std::vector<Term> terms;
  // What makes two appends of one id the same: a digest chosen by the caller. Amending an entry
  // does not change it.
  std::string fingerprint;
};

// Replaces value and terms. NotFound if there is no such entry, whatever was expected.
struct Amend {
  std::string log;
  std::string id;
  std::string value;
  std::vector<Term> terms;
  std::optional<Version> expected;
};

// NotFound if there is no such entry, whatever was expected.
struct Remove {
  std::string log;
  std::string id;
  std::optional<Version> expected;
};

// Removes the entries with from <= seq <= to. Seqs are not given out again.
struct RemoveRange {
  std::string log;
  Seq from = 0;
  Seq to = 0;
};

// Removes the entries found under the term.
struct RemoveTerm {
  std::string log;
  Term term;
};

// Removes the log as if it had never been: the next entry has seq 1, and revisions begin anew.
struct DropLog {
  std::string log;
};

// ---- lease

// Granted if nobody holds the lease, it has expired, or its token is `take_over`. Otherwise
// Conflict with field `holder`.
struct Acquire {
  std::string lease;
  std::string holder;
  // Chosen at random by the caller, who can so tell, after an answer was lost, whether it was
  // granted.
  std::uint64_t nonce = 0;
  std::optional<Millis> ttl;  // by the store's clock; absent = until released
  std::optional<Token> take_over;
};

// Fenced if the token is not the current one, or the lease has expired.
struct Renew {
  std::string lease;
  Token token;
  std::optional<Millis> ttl;
};

// Frees the lease. Fenced if the token is not the current one.
struct Release {
  std::string lease;
  Token token;
};

// ---- queue

// An id that is in the queue already, in any part, is a repetition: nothing is written.
struct Push {
  std::string queue;
  std::string id;
  std::string payload;
  // Absent = it joins the line now. Given = it is Scheduled until Join, whatever the clock says.
  std::optional<Timestamp> due_at;
};

// A scheduled item takes the next place in the line. NotFound if it is not Scheduled.
struct Join {
  std::string queue;
  std::string id;
};

// Counts an attempt of an item in the line. It keeps its place and may be tried again from
// `not_before` on. NotFound if it is not in the line.
struct Defer {
  std::string queue;
  std::string id;
  Timestamp not_before;
};

// Removes an item, whatever its part. NotFound if there is none.
struct Complete {
  std::string queue;
  std::string id;
};

// An item in the line is given up. NotFound if it is not in the line.
struct Park {
  std::string queue;
  std::string id;
  std::string reason;
};

// A parked item takes the next place in the line, its attempts forgotten. NotFound if it is not
// Parked.
struct Revive {
  std::string queue;
  std::string id;
};

// ---- limiter

// GCRA: `cost` units, at one unit per `interval` on average and at most `burst` at once.
// RateLimited if there are too few. InvalidArgument if cost > burst.
struct Take {
  std::string limiter;
  std::chrono::microseconds interval{};
  std::uint64_t burst = 1;
  std::uint64_t cost = 1;
};

// ---- partition

// Removes everything, leases and counters too, as if the partition had never been. Must be the
// only operation.
struct DropPartition {};

}  // namespace op

using Operation = std::variant<op::Put, op::Erase, op::EraseSpace, op::Add, op::Touch, op::Append,
                               op::Amend, op::Remove, op::RemoveRange, op::RemoveTerm, op::DropLog,
                               op::Acquire, op::Renew, op::Release, op::Push, op::Join, op::Defer,
                               op::Complete, op::Park, op::Revive, op::Take, op::DropPartition>;

// A directory lists things that live in many partitions: a function's sessions, a user's
// conversations, the queues with work that is due. It cannot always commit with the thing it lists,
// so entries are written before the batch and removed after it: a crash between leaves at worst an
// entry for something that is not there. Readers must look before they believe.
struct Listing {
  std::string directory;
  std::string key;                   // entries are listed in the order of the keys' bytes
  std::optional<std::string> value;  // absent = remove the entry
};

struct Batch {
  std::vector<Condition> conditions;
  std::vector<Operation> operations;
  // Not undone when a condition refuses the batch.
  std::vector<Listing> listings;
};

// Bounds on what one batch and one name may be. Layers have tighter ones of their own.
inline constexpr std::size_t kMaxNameBytes = 2048;  // keys, ids, spaces, logs, queues, terms
inline constexpr std::size_t kMaxOperations = 10'000;
// The highest version that can be given: JSON and Lua know every whole number up to it. A record
// that has it counts on.
inline constexpr Version kMaxVersion = (Version{1} << 53U) - 1;

// InvalidArgument if the batch breaks a rule above. Backends call it before anything else.
Result<> validate(const Batch& batch);

// ---- what operations answer

struct RecordWritten {  // Put, Touch
  Version version = 0;
  std::optional<Timestamp> expires_at;
};
struct Added {  // Add
  std::int64_t value = 0;
  Version version = 0;
  std::optional<Timestamp> expires_at;
};
struct Removed {  // Erase, EraseSpace, Remove, RemoveRange, RemoveTerm, DropLog, Complete
  std::uint64_t count = 0;
};
struct Appended {  // Append, Amend
  Seq seq = 0;
  Version version = 0;
  bool repeated = false;
};
struct LeaseGranted {  // Acquire, Renew
  Token token;
  std::optional<Timestamp> expires_at;
};
struct Queued {  // Push, Join, Revive
  Seq position = 0;
  bool repeated = false;
};
struct Taken {  // Take
  std::uint64_t remaining = 0;
  Millis reset_after{};  // until the limiter is full again
};
struct Done {};  // Release, Defer, Park, DropPartition

using OperationResult =
    std::variant<Done, RecordWritten, Added, Removed, Appended, LeaseGranted, Queued, Taken>;

// What became of a batch that was applied: one result per operation, in order.
struct Applied {
  std::vector<OperationResult> results;

  template <typename T>
  const T& get(std::size_t operation) const {
    return std::get<T>(results.at(operation));
  }
};

}  // namespace nimbus::store
