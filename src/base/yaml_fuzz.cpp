// Feeds the YAML reader whatever libFuzzer thinks of and checks what its callers rely on: it ends,
// lines are lines of the text, and no more comes out than was asked for.
//
//   cmake --preset asan && cmake --build --preset asan --target base_yaml_fuzz
//   build-asan/src/base/base_yaml_fuzz -max_total_time=60 DIRECTORY src/base/fuzz_seeds/yaml
#include "base/yaml.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

using namespace nimbus;

namespace {

constexpr std::size_t kMaxNodes = 1000;

void require(bool condition) {
  if (!condition) std::abort();
}

// How many nodes there are.
std::size_t check(const YamlNode& node, std::int64_t lines, int depth) {
  require(depth <= 64);
  require(node.line >= 0 && node.line <= lines);
  require(node.kind == YamlNode::Kind::Scalar || node.text.empty());
  std::size_t count = 1;
  for (const YamlNode::Entry& entry : node.items) {
    require(entry.line >= 0 && entry.line <= lines);
    count += check(entry.value, lines, depth + 1);
  }
  return count;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // Line breaks of every kind YAML knows; one line more for what stands behind the last.
  const auto breaks =
      std::count_if(text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; });
  const std::int64_t lines = breaks + 1;
  const auto root = parseYaml(text, kMaxNodes);
  if (root) {
    require(check(*root, lines, 0) <= kMaxNodes);
  } else {
    require(root.error().code() == Code::InvalidArgument);
    require(root.error().field("line", 1) >= 0 && root.error().field("line", 1) <= lines + 1);
  }
  return 0;
}
