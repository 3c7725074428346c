#include "store/sqlite/turnstile.h"

#include "base/assert.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace nimbus::store::sqlite {

namespace {
constexpr int kNone = -1;
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
  int answer = 0;
  do {
    answer = ::flock(descriptor_, LOCK_EX);
  } while (answer != 0 && errno == EINTR);
  NIMBUS_ASSERT(answer == 0, "flock on an open descriptor only fails when interrupted");
  return Pass(descriptor_);
}

Turnstile::Pass::Pass(Pass&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, kNone)) {}

Turnstile::Pass::~Pass() {
  if (descriptor_ != kNone) ::flock(descriptor_, LOCK_UN);
}

}  // namespace nimbus::store::sqlite
