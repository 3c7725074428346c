// Feeds the parser whatever libFuzzer thinks of and checks that it means the same however it is
// cut.
//
//   cmake --preset asan && cmake --build --preset asan --target redis_parser_fuzz
//   build-asan/src/redis/redis_parser_fuzz -max_total_time=60 DIRECTORY src/redis/fuzz_seeds/parser
#include "redis/parser.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

using namespace nimbus::redis;

namespace {

struct Outcome {
  std::vector<Value> values;
  bool malformed = false;

  bool operator==(const Outcome&) const = default;
};

Outcome parse(std::string_view bytes, std::size_t piece) {
  Parser parser;
  Outcome outcome;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    parser.feed(bytes.substr(at, piece));
    while (true) {
      auto value = parser.next();
      if (!value) {
        outcome.malformed = true;
        return outcome;
      }
      if (!*value) break;
      outcome.values.push_back(**std::move(value));
    }
  }
  return outcome;
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);  // NOLINT(*-cast)
  const Outcome whole = parse(bytes, size + 1);
  if (parse(bytes, 1) != whole || parse(bytes, 5) != whole) std::abort();
  return 0;
}
