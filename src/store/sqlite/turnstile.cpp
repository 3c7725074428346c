#include "store/sqlite/turnstile.h"

#include "base/assert.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace nimbus::store::sqlite {

namespace {

constexpr int kNone = -1;

// The locks are bytes of the file. They belong to the open file, so they end with the process, and
// are not dropped when some other descriptor of the file is closed.
constexpr ::off_t kPlace = 0;
constexpr ::off_t kGate = 1;

using LockType = decltype(::flock::l_type);

void change(int descriptor, ::off_t byte, LockType to) {
  struct ::flock lock {};
  lock.l_type = to;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  int answer = 0;
  do {
    answer = ::fcntl(descriptor, F_OFD_SETLKW, &lock);
  } while (answer != 0 && errno == EINTR);
  NIMBUS_ASSERT(answer == 0, "a lock on an open descriptor only fails when interrupted");
}

void take(int descriptor, ::off_t byte) {
  change(descriptor, byte, F_WRLCK);
}
void give(int descriptor, ::off_t byte) {
  change(descriptor, byte, F_UNLCK);
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

Turnstile::Pass Turnstile::enter() {
  take(descriptor_, kPlace);
  take(descriptor_, kGate);
  give(descriptor_, kPlace);
  return Pass(descriptor_);
}

Turnstile::Pass::Pass(Pass&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, kNone)) {}

Turnstile::Pass::~Pass() {
  if (descriptor_ != kNone) give(descriptor_, kGate);
}

}  // namespace nimbus::store::sqlite
