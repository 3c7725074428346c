#include "base/random.h"

#include "base/assert.h"

#include <sys/random.h>

#include <array>
#include <string_view>

namespace nimbus {

std::string Random::base36(std::size_t length) {
  static constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::string text(length, '0');
  for (char& c : text) c = kDigits[below(kDigits.size())];
  return text;
}

std::uint64_t SystemRandom::next() {
  // A syscall for 8 bytes at a time would show up on the path of a request.
  static constexpr std::size_t kPool = 32;
  thread_local std::array<std::uint64_t, kPool> pool{};
  thread_local std::size_t left = 0;
  if (left == 0) {
    const auto got = ::getrandom(pool.data(), sizeof pool, 0);
    NIMBUS_ASSERT(got == static_cast<ssize_t>(sizeof pool),
                  "getrandom gives up to 256 bytes at once");
    left = kPool;
  }
  return pool[--left];
}

}  // namespace nimbus
