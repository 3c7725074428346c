#pragma once
// A session: the line of its tasks, and who may take it away.

#include "dispatch/job.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
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
    std::uint64_t seen = word_.load(std::memory_order_relaxed);
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

  std::uint32_t unfinished() const {
    return static_cast<std::uint32_t>(word_.load(std::memory_order_acquire) & kCount);
  }
  bool isIdle() const { return word_.load(std::memory_order_relaxed) == 0; }

  // Only an idle session can be retired, and then nobody enters any more.
  bool tryRetire() {
    std::uint64_t idle = 0;
    return word_.compare_exchange_strong(idle, kRetired, std::memory_order_acq_rel,
                                         std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint64_t kCount = 0xFFFFFFFF;
  static constexpr std::uint64_t kHeld = std::uint64_t{1} << 32U;
  static constexpr std::uint64_t kPaused = std::uint64_t{1} << 33U;
  static constexpr std::uint64_t kRetired = std::uint64_t{1} << 34U;

  std::atomic<std::uint64_t> word_ = 0;
};

struct SessionDeleter;
using SessionPointer = std::unique_ptr<Session, SessionDeleter>;

// Small, because there are many: the name lies behind the object, in the same allocation.
struct Session {
  std::atomic<Session*> next_in_bucket = nullptr;
  Gate gate;
  Worker* const worker;  // for life: a session that moves is forgotten and begun again

  // The rest belongs to the worker and is guarded by its mutex.
  Job* head = nullptr;  // a ring; a task stays at the head until it has ended
  Session* next_ready = nullptr;
  std::uint32_t const hash;
  std::uint32_t const name_size;
  std::atomic<std::uint32_t> idle_since =
      0;               // in ticks of the sweeper; read by it without the mutex
  bool ready = false;  // stands among the worker's ready sessions
  bool busy = false;   // a thread serves it

  static SessionPointer make(std::string_view name, std::uint32_t hash, Worker& worker);

  std::string_view name() const { return {reinterpret_cast<const char*>(this + 1), name_size}; }

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
      : worker(&home), hash(name_hash), name_size(size) {}
};

struct SessionDeleter {
  void operator()(Session* session) const {
    session->~Session();
    ::operator delete(session);
  }
};

inline SessionPointer Session::make(std::string_view name, std::uint32_t hash, Worker& worker) {
  void* const memory = ::operator new(sizeof(Session) + name.size());
  auto* const session = new (memory) Session(hash, static_cast<std::uint32_t>(name.size()), worker);
  char* const behind = static_cast<char*>(memory) + sizeof(Session);
  std::copy(name.begin(), name.end(), behind);
  return SessionPointer(session);
}

}  // namespace nimbus::dispatch
