#pragma once
// The state of one session, in the memory of whoever owns it: the server that runs its calls, or,
// for the length of a call, the instance.
//
// Everything happens here before it happens in the store. What a call has changed is taken from it
// as Changes, one per key however often the key was written, and becomes one commit.

#include "base/clock.h"
#include "base/result.h"
#include "state/operation.h"
#include "state/rules.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::state {

// What became of the keys that were written. Each is in one of the lists.
struct Changes {
  struct Write {
    std::string key;
    std::string value;
    Version version = 0;
    std::optional<Timestamp> expires_at;

    bool operator==(const Write&) const = default;
  };
  // The value stayed as it was.
  struct Touch {
    std::string key;
    Version version = 0;
    std::optional<Timestamp> expires_at;

    bool operator==(const Touch&) const = default;
  };
  struct Removal {
    std::string key;
    Version last = 0;  // the highest version it has had

    bool operator==(const Removal&) const = default;
  };

  std::vector<Write> writes = {};
  std::vector<Touch> touches = {};
  std::vector<Removal> removals = {};

  bool empty() const { return size() == 0; }
  std::size_t size() const { return writes.size() + touches.size() + removals.size(); }
};

class Space {
 public:
  struct Entry {
    std::string value;  // JSON
    Version version = 0;
    std::optional<Timestamp> expires_at;  // absent: never
    std::optional<Timestamp> updated_at;  // as far as it is known
  };
  using Entries = std::map<std::string, Entry, std::less<>>;

  // `floor`: the highest version of anything that is gone; what is new gets a higher one.
  explicit Space(Version floor = 0) : floor_(floor) {}

  // What is stored, before the first operation.
  void load(std::string key, Entry entry);

  // Carries an operation out, or changes nothing.
  Result<Answer> apply(const Operation& operation, const Rules& rules, Timestamp now);

  // What apply() has changed since the last time, as it is now.
  Changes takeChanges();

  // Makes changes that were made elsewhere on top of what this space held then, and nothing has
  // happened to it since. All or nothing; an error says which rule they break.
  Result<> accept(const Changes& changes, const Rules& rules, Timestamp now);

  // Forgets what has expired.
  void prune(Timestamp now);

  // May hold what has expired since the last prune().
  const Entries& entries() const { return entries_; }
  Version floor() const { return floor_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  struct Mark {
    bool value_changed = false;
    Version last = 0;
  };

  Result<Answer> write(const std::vector<std::string>& keys, const std::vector<std::string>& values,
                       const Operation& operation, const Rules& rules, Timestamp now);
  Result<Answer> add(const Operation& operation, const Rules& rules, Timestamp now);
  Result<Answer> setExpiry(std::string_view key, std::optional<Timestamp> expires_at,
                           Timestamp now);
  Result<> checkLimits(std::uint64_t keys, std::uint64_t bytes, const Rules& rules) const;

  const Entry* find(std::string_view key) const;
  Entry& put(std::string_view key, std::string value);
  void remove(Entries::iterator place);
  void noteExpiry(const std::optional<Timestamp>& expires_at);
  Mark& mark(std::string_view key, Version version);

  Entries entries_;
  Version floor_ = 0;
  std::uint64_t bytes_ = 0;
  Timestamp next_expiry_ = Timestamp::max();  // nothing expires before
  std::map<std::string, Mark, std::less<>> marks_;
};

}  // namespace nimbus::state
