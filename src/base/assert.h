#pragma once
// NIMBUS_ASSERT guards what only a bug of ours can break. It stays on in release builds and aborts:
// what is durable is sound, so a crash costs less than going on with a guess. Never use it on
// input.

namespace nimbus {

[[noreturn]] void assertionFailed(const char* condition, const char* why, const char* file,
                                  int line);

}  // namespace nimbus

#define NIMBUS_ASSERT(condition, why)                  \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::nimbus::assertionFailed(#condition, why, __FILE__, __LINE__))
