#pragma once
// The tasks of a session that wait or run, in their order, at its worker; and all lines of a
// worker. A session that has no task has no line: what a worker looks at grows with its work, not
// with the sessions that it was given. Guarded by the worker's mutex.

#include "dispatch/job.h"
#include "dispatch/session.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nimbus::dispatch {

struct Line {
  Session* session = nullptr;
  Job* head = nullptr;  // a ring; a task stays at the head until it has ended
  Line* next_ready = nullptr;
  Line* next_in_bucket = nullptr;
  Instant since;  // when its first task was submitted
  std::uint32_t size = 0;
  bool ready = false;   // stands among the worker's ready lines
  bool busy = false;    // a thread serves it
  bool paused = false;  // its session is

  void append(Job& job) {
    job.line = this;
    ++size;
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
    job.line = nullptr;
    --size;
  }
};

class Lines {
 public:
  Lines() : buckets_(kFewestBuckets) {}
  ~Lines();
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  std::size_t size() const { return size_; }

  Line* find(const Session& session) const {
    Line* line = buckets_[bucketOf(session)];
    while (line != nullptr && line->session != &session) line = line->next_in_bucket;
    return line;
  }

  // For a session that has none.
  Line& begin(Session& session);
  void end(Line& line);

  template <typename Look>
  void forEach(Look&& look) {
    for (Line* line : buckets_) {
      for (; line != nullptr; line = line->next_in_bucket) look(*line);
    }
  }

 private:
  static constexpr std::size_t kFewestBuckets = 64;
  static constexpr std::size_t kMostSpare = 1024;

  std::size_t bucketOf(const Session& session) const {
    // Addresses of sessions are multiples of 64, and may be in any pattern.
    constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15U;
    return (reinterpret_cast<std::uintptr_t>(&session) * kOdd >> 32U) & (buckets_.size() - 1);
  }
  void resize(std::size_t buckets);

  std::vector<Line*> buckets_;
  std::size_t size_ = 0;
  Line* spare_ = nullptr;  // to be used again
  std::size_t spares_ = 0;
};

}  // namespace nimbus::dispatch
