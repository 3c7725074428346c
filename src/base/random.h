#pragma once
// Randomness comes in through a Random&, so that a test that prints its seed can be run again.

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>

namespace nimbus {

class Random {
 public:
  virtual ~Random() = default;
  virtual std::uint64_t next() = 0;

  // Uniform in [0, bound); bound > 0.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }

  // `length` characters of [0-9a-z].
  std::string base36(std::size_t length);
};

// The kernel's generator: unpredictable, fit for keys and nonces. Safe from any thread.
class SystemRandom final : public Random {
 public:
  std::uint64_t next() override;
};

// Repeatable, for tests and for spreading load. One thread.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t next() override { return engine_(); }

 private:
  std::mt19937_64 engine_;
};

}  // namespace nimbus
