#pragma once
// Descriptor 3: frames to and from the server.

#include <nimbus/function/frames.h>
#include <nimbus/function/json_text.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>

namespace nimbus::native {

inline constexpr int kDescriptor = 3;

inline std::int64_t monotonicNanos() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Ends the process at once: threads that the function left behind must not keep it.
[[noreturn]] inline void leave(int code) {
  ::_exit(code);
}

[[noreturn]] inline void fail(std::string_view message) {
  const std::string line = "nimbus: " + std::string(message) + "\n";
  static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
  leave(1);
}

// Any thread may send, and any may wait for a reply. One of those who wait reads, for all of them:
// a call that runs on the main thread has nobody else to read its reply for it.
class Channel {
 public:
  explicit Channel(int descriptor) : descriptor_(descriptor) {}
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Whole frames. While one thread is sending, what others bring goes along with its next write.
  void send(std::string_view frames) {
    if (abandoned_.load(std::memory_order_relaxed)) leave(0);
    std::unique_lock lock(sending_);
    sent_.wait(lock, [&] { return queued_.size() < kMaxQueued; });
    if (is_sending_) {
      queued_ += frames;
      return;
    }
    is_sending_ = true;
    lock.unlock();
    write(frames);
    lock.lock();
    while (!queued_.empty()) {
      const std::string more = std::exchange(queued_, {});
      sent_.notify_all();
      lock.unlock();
      write(more);
      lock.lock();
    }
    is_sending_ = false;
  }

  // The next frame that is no reply. Ends the process when there will be none.
  Frame next() {
    std::unique_lock lock(reading_);
    waitUntil(lock, [&] { return !inbox_.empty(); });
    return takeFirst();
  }

  // One that has been read already.
  std::optional<Frame> nextIfThere() {
    const std::lock_guard lock(reading_);
    if (inbox_.empty()) return std::nullopt;
    return takeFirst();
  }

  // Sends a State frame and waits for its reply.
  Frame exchange(std::uint64_t request, std::int64_t id, std::string_view frame) {
    std::unique_lock lock(reading_);
    Pending& pending = pending_.emplace_back();
    const auto place = std::prev(pending_.end());
    pending.request = request;
    pending.id = id;
    lock.unlock();
    send(frame);
    lock.lock();
    waitUntil(lock, [&] { return pending.reply.has_value(); });
    Frame reply = *std::move(pending.reply);
    pending_.erase(place);
    return reply;
  }

  // In a forked child: the frames are the parent's. With the socket closed here the server sees it
  // when the parent ends.
  void abandon() {
    abandoned_.store(true, std::memory_order_relaxed);
    ::close(descriptor_);
  }

 private:
  struct Pending {
    std::uint64_t request = 0;
    std::int64_t id = 0;
    std::optional<Frame> reply;
  };

  static constexpr std::size_t kRoom = 64UL << 10U;
  static constexpr std::size_t kMaxQueued = 4UL << 20U;

  void write(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t written = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) leave(1);
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  Frame takeFirst() {
    Frame frame = std::move(inbox_.front());
    inbox_.pop_front();
    return frame;
  }

  // Reads, or waits while another thread does, until `arrived` says so.
  template <typename Arrived>
  void waitUntil(std::unique_lock<std::mutex>& lock, Arrived arrived) {
    while (!arrived()) {
      if (is_reading_) {
        came_.wait(lock);
        continue;
      }
      is_reading_ = true;
      lock.unlock();
      const std::string_view data = read();
      const std::int64_t now = monotonicNanos();
      lock.lock();
      takeIn(data, now);
      is_reading_ = false;
      came_.notify_all();
    }
  }

  std::string_view read() {
    while (true) {
      const ssize_t size = ::recv(descriptor_, room_.data(), room_.size(), 0);
      if (size > 0) return {room_.data(), static_cast<std::size_t>(size)};
      if (size == 0) leave(0);
      if (errno != EINTR) leave(1);
    }
  }

  void takeIn(std::string_view data, std::int64_t now) {
    try {
      const std::size_t before = inbox_.size();
      reader_.feed(data, now, inbox_);
      for (std::size_t i = before; i < inbox_.size();) {
        if (inbox_[i].type != FrameType::State) {
          ++i;
          continue;
        }
        deliver(std::move(inbox_[i]));
        inbox_.erase(inbox_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    } catch (const std::exception& wrong) {
      fail(std::string("what came on descriptor 3 is not the protocol: ") + wrong.what());
    }
  }

  void deliver(Frame reply) {
    std::int64_t id = 0;
    Scanner scanner(reply.head());
    scanner.members(0, [&](const Quoted& name) {
      if (name.raw == "id") {
        id = scanner.integer();
      } else {
        static_cast<void>(scanner.trusted());
      }
    });
    for (Pending& pending : pending_) {
      if (pending.request == reply.request && pending.id == id) {
        pending.reply = std::move(reply);
        return;
      }
    }
  }

  const int descriptor_;
  std::atomic<bool> abandoned_ = false;

  std::mutex sending_;
  std::condition_variable sent_;
  bool is_sending_ = false;
  std::string queued_;  // behind what is being sent

  std::mutex reading_;
  std::condition_variable came_;
  bool is_reading_ = false;
  std::vector<char> room_ = std::vector<char>(kRoom);  // of who is reading
  FrameReader reader_;
  std::deque<Frame> inbox_;
  std::list<Pending> pending_;
};

}  // namespace nimbus::native
