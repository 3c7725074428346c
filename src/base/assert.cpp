#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace nimbus {

void assertionFailed(const char* condition, const char* why, const char* file, int line) {
  // Straight to stderr: the logger may be the thing that broke.
  static_cast<void>(
      std::fprintf(stderr, "%s:%d: assertion failed: %s (%s)\n", file, line, condition, why));
  std::abort();
}

}  // namespace nimbus
