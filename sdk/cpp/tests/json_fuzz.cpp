// Any bytes as JSON. What is read must be written so that it is read as the same, and whoever only
// checks must come to the same result as whoever reads. SEEDS are in fuzz_seeds/json.
//
//   cmake --preset asan && cmake --build --preset asan --target sdk_cpp_tests_json_fuzz
//   build-asan/sdk/cpp/tests/sdk_cpp_tests_json_fuzz -max_total_time=60 DIRECTORY SEEDS

#include <nimbus/function/json.h>

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // NOLINTNEXTLINE(*-reinterpret-cast): bytes are bytes
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  bool is_json = true;
  try {
    nimbus::native::checkJson(text);
  } catch (const nimbus::JsonError&) {
    is_json = false;
  }
  try {
    const nimbus::Json value = nimbus::Json::parse(text);
    if (!is_json) std::abort();
    const std::string written = value.text();
    if (nimbus::Json::parse(written).text() != written) std::abort();
    if (nimbus::Json::ofText(std::string(text)).text() != text) std::abort();
  } catch (const nimbus::JsonError&) {
    if (is_json) std::abort();
  }
  return 0;
}
