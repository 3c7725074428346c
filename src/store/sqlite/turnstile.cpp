#include "store/sqlite/turnstile.h"

#include "base/assert.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

namespace nimbus::store::sqlite {

namespace {

using Steady = std::chrono::steady_clock;

constexpr int kNone = -1;

// The locks are bytes of the file. They belong to the open file, so they end with the process, and
// are not dropped when some other descriptor of the file is closed.
constexpr ::off_t kPlace = 0;
constexpr ::off_t kGate = 1;

using LockType = decltype(::flock::l_type);

// True if the lock is as wanted; false if it is another's (F_OFD_SETLK), or a signal came
// (F_OFD_SETLKW).
bool change(int descriptor, ::off_t byte, LockType to, int how) {
  struct ::flock lock {};
  lock.l_type = to;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  if (::fcntl(descriptor, how, &lock) == 0) return true;
  NIMBUS_ASSERT(errno == EAGAIN || errno == EACCES || errno == EINTR,
                "a lock on an open descriptor is had, or another's, or interrupted");
  return false;
}

// Interrupts the calling thread's system calls, from a moment on and until it is destroyed.
class Alarm {
 public:
  // `in`: above zero.
  explicit Alarm(Steady::duration in) {
    static const bool kPrepared = prepare();
    static_cast<void>(kPrepared);
    ::sigset_t ours;
    ::sigemptyset(&ours);
    ::sigaddset(&ours, SIGRTMAX);
    ::pthread_sigmask(SIG_UNBLOCK, &ours, nullptr);

    struct ::sigevent event {};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGRTMAX;
    event._sigev_un._tid = ::gettid();  // glibc has no other name for it
    armed_ = ::timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0;
    if (!armed_) return;
    // Again and again: the first may come just before the call that it is to interrupt.
    constexpr std::chrono::milliseconds kAgain(10);
    const ::itimerspec when{.it_interval = spec(kAgain), .it_value = spec(in)};
    ::timer_settime(timer_, 0, &when, nullptr);
  }
  ~Alarm() {
    if (armed_) ::timer_delete(timer_);
  }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  // False if the user has too many timers and signals already.
  bool armed() const { return armed_; }

 private:
  static bool prepare() {
    struct ::sigaction action {};
    action.sa_handler = [](int) {};
    return ::sigaction(SIGRTMAX, &action, nullptr) == 0;
  }
  static ::timespec spec(Steady::duration in) {
    const auto nanos = std::chrono::nanoseconds(in).count();
    return {.tv_sec = nanos / 1'000'000'000, .tv_nsec = nanos % 1'000'000'000};
  }

  ::timer_t timer_{};
  bool armed_ = false;
};

// Whether it was had in time.
bool take(int descriptor, ::off_t byte, Steady::time_point deadline) {
  // Nearly always there is nobody else, and this is all.
  if (change(descriptor, byte, F_WRLCK, F_OFD_SETLK)) return true;
  const auto left = deadline - Steady::now();
  if (left <= Steady::duration::zero()) return false;
  const Alarm alarm(left);
  const int how = alarm.armed() ? F_OFD_SETLKW : F_OFD_SETLK;
  do {
    if (change(descriptor, byte, F_WRLCK, how)) return true;
    // Without an alarm nobody would end a wait: then it has to be asked for, again and again.
    if (!alarm.armed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } while (Steady::now() < deadline);
  return false;
}

void give(int descriptor, ::off_t byte) {
  NIMBUS_ASSERT(change(descriptor, byte, F_UNLCK, F_OFD_SETLK), "a lock can always be given up");
}

}  // namespace

Result<Turnstile> Turnstile::open(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor >= 0) return Turnstile(descriptor);
  return Error(Code::Unavailable, fmt::format("cannot open {}: {}", path.string(),
                                              std::generic_category().message(errno)));
}

Turnstile::Turnstile(Turnstile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, kNone)) {}

Turnstile::~Turnstile() {
  if (descriptor_ != kNone) ::close(descriptor_);
}

std::optional<Turnstile::Pass> Turnstile::enter(std::chrono::nanoseconds patience) {
  const auto deadline = Steady::now() + patience;
  if (!take(descriptor_, kPlace, deadline)) return std::nullopt;
  const bool entered = take(descriptor_, kGate, deadline);
  give(descriptor_, kPlace);
  if (!entered) return std::nullopt;
  return Pass(descriptor_);
}

Turnstile::Pass::Pass(Pass&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, kNone)) {}

Turnstile::Pass::~Pass() {
  if (descriptor_ != kNone) give(descriptor_, kGate);
}

}  // namespace nimbus::store::sqlite
