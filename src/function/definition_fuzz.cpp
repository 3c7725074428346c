// Feeds update() whatever libFuzzer thinks of and checks what its callers rely on: what it accepts
// is the same after it was stored, and is shown as JSON.
//
//   cmake --preset asan && cmake --build --preset asan --target function_definition_fuzz
//   build-asan/src/function/function_definition_fuzz -max_total_time=60 DIRECTORY
//   src/function/fuzz_seeds/definition
#include "base/json.h"
#include "function/definition.h"
#include "function/deployed.h"
#include "function/upload.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>

using namespace nimbus;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

bool isRefusal(Code code) {
  return code == Code::InvalidJson || code == Code::InvalidArgument ||
         code == Code::Unprocessable || code == Code::TooLarge;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const FunctionId id = *FunctionId::parse("f");
  const function::Defaults defaults;
  const auto code = function::readCode(body);
  require(code || isRefusal(code.error().code()));
  const auto definition = function::update(std::nullopt, id, body, defaults);
  if (!definition) {
    require(isRefusal(definition.error().code()));
    return 0;
  }
  const auto stored = function::decode(id, encode(function::Deployed(*definition)), defaults);
  require(stored && stored->definition == *definition);
  require(checkJson(toJson(*definition)).has_value());
  const auto again = function::update(*definition, id, body, defaults);
  require(again && *again == *definition);
  return 0;
}
