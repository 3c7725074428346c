#include "cli/exposition.h"

#include <cstdlib>
#include <optional>
#include <utility>

namespace nimbus::cli {
namespace {

// `name="value",…}`; what follows the brace is left in `rest`.
bool readLabels(std::string_view& rest, std::map<std::string, std::string>& labels) {
  while (!rest.empty() && rest.front() != '}') {
    const std::size_t equals = rest.find("=\"");
    if (equals == rest.npos) return false;
    std::string& value = labels[std::string(rest.substr(0, equals))];
    rest.remove_prefix(equals + 2);
    while (!rest.empty() && rest.front() != '"') {
      if (rest.front() == '\\' && rest.size() > 1) rest.remove_prefix(1);
      value += rest.front();
      rest.remove_prefix(1);
    }
    if (rest.empty()) return false;
    rest.remove_prefix(1);
    if (rest.starts_with(',')) rest.remove_prefix(1);
  }
  if (rest.empty()) return false;
  rest.remove_prefix(1);
  return true;
}

std::optional<Sample> readLine(std::string_view line) {
  Sample sample;
  const std::size_t end = line.find_first_of("{ ");
  if (line.empty() || line.front() == '#' || end == line.npos) return std::nullopt;
  sample.name = line.substr(0, end);
  std::string_view rest = line.substr(end);
  if (rest.front() == '{') {
    rest.remove_prefix(1);
    if (!readLabels(rest, sample.labels)) return std::nullopt;
  }
  sample.value = std::strtod(std::string(rest).c_str(), nullptr);
  return sample;
}

}  // namespace

std::vector<Sample> readExposition(std::string_view text) {
  std::vector<Sample> samples;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (auto sample = readLine(text.substr(0, end))) samples.push_back(*std::move(sample));
    if (end == text.npos) break;
    text.remove_prefix(end + 1);
  }
  return samples;
}

}  // namespace nimbus::cli
