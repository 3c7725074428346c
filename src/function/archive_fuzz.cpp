// Feeds unpack() whatever libFuzzer thinks of and checks what its callers rely on: it ends, and
// what comes out stays below its directory and within its limits, and survives being stored.
//
//   cmake --preset asan && cmake --build --preset asan --target function_archive_fuzz
//   build-asan/src/function/function_archive_fuzz -max_total_time=60 DIRECTORY
//   src/function/fuzz_seeds/archive
#include "function/archive.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

using namespace nimbus;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bundle = function::unpack(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!bundle) {
    require(bundle.error().code() == Code::InvalidArgument ||
            bundle.error().code() == Code::TooLarge);
    return 0;
  }
  require(bundle->files().size() <= function::Bundle::kMaxFiles);
  require(bundle->bytes() <= function::Bundle::kMaxBytes);
  for (const auto& [path, file] : bundle->files()) require(function::checkPath(path).has_value());
  const auto decoded = function::Bundle::decode(bundle->encode());
  require(decoded && *decoded == *bundle);
  return 0;
}
