#pragma once
// A session: the line of its tasks, and who may take it away.

#include "dispatch/job.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>

namespace nimbus::dispatch {

class Worker;

// Counts the unfinished tasks of a session, and decides the race between a task that comes and the
// sweeper that forgets the session: one atomic word, so one of them comes first.
class Gate {
 public:
  enum class Entry : std::uint8_t { Entered, Full, Retired };

  // `limit` 0: no bound.
  Entry enter(std::uint32_t tasks, std::uint64_t limit) {
    std::uint32_t seen = word_.load(std::memory_order_relaxed);
    while (true) {
      if ((seen & kRetired) != 0) return Entry::Retired;
      if (limit != 0 && (seen & kCount) + tasks > limit) return Entry::Full;
      if (word_.compare_exchange_weak(seen, seen + tasks, std::memory_order_acq_rel,
                                      std::memory_order_relaxed)) {
        return Entry::Entered;
      }
    }
  }

  // The session may be gone once its last task has left.
  void leave(std::uint32_t tasks) { word_.fetch_sub(tasks, std::memory_order_acq_rel); }

  // The last task leaves, but the session must stay: it still stands among the ready ones.
  void leaveHeld() { word_.fetch_add(kHeld - 1, std::memory_order_acq_rel); }
  bool isHeld() const { return (word_.load(std::memory_order_relaxed) & kHeld) != 0; }
  void unhold() { word_.fetch_sub(kHeld, std::memory_order_acq_rel); }

  void setPaused() { word_.fetch_or(kPaused, std::memory_order_acq_rel); }
  void clearPaused() { word_.fetch_and(~kPaused, std::memory_order_acq_rel); }
  bool isPaused() const { return (word_.load(std::memory_order_relaxed) & kPaused) != 0; }

  std::uint32_t unfinished() const { return word_.load(std::memory_order_acquire) & kCount; }
  // The same, in one order with all who enter and leave.
  std::uint32_t unfinishedNow() { return word_.fetch_add(0, std::memory_order_acq_rel) & kCount; }
  bool isIdle() const { return word_.load(std::memory_order_relaxed) == 0; }

  // Only an idle session can be retired, and then nobody enters any more.
  bool tryRetire() {
    std::uint32_t idle = 0;
    return word_.compare_exchange_strong(idle, kRetired, std::memory_order_acq_rel,
                                         std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint32_t kCount = 0x1FFFFFFF;
  static constexpr std::uint32_t kHeld = 1U << 29U;
  static constexpr std::uint32_t kPaused = 1U << 30U;
  static constexpr std::uint32_t kRetired = 1U << 31U;

  std::atomic<std::uint32_t> word_ = 0;
};

// Small, because there are many, and in one cache line if its name is not long: the name lies
// behind the object. Memory is the business of whoever makes them.
struct Session {
  std::atomic<Session*> next_in_bucket = nullptr;
  Gate gate;
  std::uint32_t const hash;
  Worker* const worker;  // for life: a session that moves is forgotten and begun again

  // The rest belongs to the worker and is guarded by its mutex.
  Job* head = nullptr;  // a ring; a task stays at the head until it has ended
  Session* next_ready = nullptr;
  std::atomic<std::uint32_t> idle_since = 0;  // a tick; the sweeper reads it without the mutex

  std::uint32_t const name_size;
  bool ready = false;  // stands among the worker's ready sessions
  bool busy = false;   // a thread serves it

  static constexpr std::size_t sizeFor(std::string_view name);

  // In memory of sizeFor(name).
  static Session* make(void* memory, std::string_view name, std::uint32_t hash, Worker& worker);

  std::string_view name() const {
    return {reinterpret_cast<const char*>(this) + kNameOffset, name_size};
  }

  void append(Job& job) {
    if (head == nullptr) {
      job.next = job.previous = head = &job;
      return;
    }
    job.next = head;
    job.previous = head->previous;
    head->previous->next = &job;
    head->previous = &job;
  }

  void unlink(Job& job) {
    if (head == &job) head = job.next == &job ? nullptr : job.next;
    job.previous->next = job.next;
    job.next->previous = job.previous;
    job.next = job.previous = nullptr;
  }

 private:
  Session(std::uint32_t name_hash, std::uint32_t size, Worker& home)
      : hash(name_hash), worker(&home), name_size(size) {}

  // The name begins in what would be padding.
  static const std::size_t kNameOffset;
};

inline constexpr std::size_t Session::kNameOffset = offsetof(Session, busy) + sizeof(bool);

constexpr std::size_t Session::sizeFor(std::string_view name) {
  return std::max(sizeof(Session), kNameOffset + name.size());
}

inline Session* Session::make(void* memory, std::string_view name, std::uint32_t hash,
                              Worker& worker) {
  auto* const session = new (memory) Session(hash, static_cast<std::uint32_t>(name.size()), worker);
  std::copy(name.begin(), name.end(), static_cast<char*>(memory) + kNameOffset);
  return session;
}

}  // namespace nimbus::dispatch
