#pragma once
// The record of administrative acts and of refusals, in the store. Both are kept apart, each up to
// a number of entries: whoever is refused cannot push acts out.

#include "base/clock.h"
#include "base/metrics.h"
#include "base/random.h"
#include "base/result.h"
#include "base/task.h"
#include "store/store.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nimbus::gateway {

struct AuditEntry {
  enum class Kind : std::uint8_t { Act, Refusal };

  Kind kind = Kind::Act;
  std::string principal_id;  // empty: not known
  std::string principal_name;
  std::string action;  // an operation id
  std::string method;
  std::string target;  // the path
  int status = 0;
  std::string code;  // of an error
  std::string request_id;
  std::string remote_address;
  std::uint64_t count = 1;  // of refusals that are told by their number only
};

// Any thread.
class AuditLog {
 public:
  struct Options {
    std::uint64_t max_entries = 100'000;  // of each kind
  };

  // Both must outlive it; `random` is safe from any thread.
  AuditLog(store::Store& store, Random& random, Options options)
      : store_(store), random_(random), options_(options) {}

  void addTo(Metrics& metrics);

  // Returns when the entries, all of one kind, are durable. A request has at most one of each kind.
  // What cannot be written is counted, and acts are logged instead: they have happened.
  Task<> append(std::vector<AuditEntry> entries);

  struct Filter {
    std::optional<std::string> kind, principal, action, target, outcome;
    std::optional<Timestamp> since, until;
  };
  struct Page {
    std::vector<std::string> items;  // as JSON
    std::optional<std::string> next;
  };
  // Newest first. A page may be shorter than `limit` and still have a next: it looks at only so
  // many entries.
  Task<Result<Page>> list(Filter filter, std::string cursor, std::size_t limit);

 private:
  struct Side;

  Task<Result<>> fill(Side& side);
  void lose(const std::vector<AuditEntry>& entries, const Error& error);

  store::Store& store_;
  Random& random_;
  const Options options_;
  std::array<std::atomic<store::Seq>, 2> last_seq_{};  // as far as this process knows
  std::array<std::optional<Counter>, 2> written_;
  std::optional<Counter> lost_;
};

}  // namespace nimbus::gateway
