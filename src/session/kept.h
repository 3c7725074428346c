#pragma once
// How much a function keeps in the store: its sessions, and the bytes of their state.
//
// Nobody can know that without looking, because what expires goes by itself; and nobody can look at
// everything each time somebody asks. So it is what was counted last (census.h), and what calls
// have changed since. What has expired since is noticed by the next count.

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace nimbus::session {

struct KeptTotals {
  std::int64_t sessions = 0;
  std::int64_t bytes = 0;

  bool operator==(const KeptTotals&) const = default;
};

// Any thread may use any member.
class Kept {
 public:
  // A call has changed a session. Takes no lock but while a count is under way.
  void change(std::string_view session_key, KeptTotals by);

  // Nothing before the first count has ended.
  std::optional<KeptTotals> totals() const;

  // ---- a count, which goes through the sessions in the order of their keys

  void beginCount();
  // What there is of the sessions up to this key, besides those that were told of before. Changes
  // of these are added to the count from now on; those of later sessions will be seen by it.
  void counted(std::string up_to, KeptTotals found);
  // `function_bytes`: in function scope.
  void endCount(std::int64_t function_bytes);
  // It came to nothing: what was known stays.
  void abandonCount();

 private:
  std::atomic<std::int64_t> sessions_ = 0;
  std::atomic<std::int64_t> bytes_ = 0;
  std::atomic<bool> is_known_ = false;

  std::atomic<bool> is_counting_ = false;
  std::mutex mutex_;
  std::string counted_to_;  // guarded by mutex_, as is
  KeptTotals count_;
};

}  // namespace nimbus::session
