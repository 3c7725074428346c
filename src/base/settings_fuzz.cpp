// Feeds a table of settings of every type whatever libFuzzer thinks of, as file, variables and
// assignments, and checks that what is accepted is shown as something that is accepted again, and
// that no secret is shown.
//
//   cmake --preset asan && cmake --build --preset asan --target base_settings_fuzz
//   build-asan/src/base/base_settings_fuzz -max_total_time=60 DIRECTORY
//   src/base/fuzz_seeds/settings
#include "base/settings.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

using namespace nimbus;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

constexpr std::string_view kSecret = "hunter2hunter2";

enum class Colour { Red, Green };

struct Table {
  Table() {
    settings.add("a.flag", flag, "Flag");
    settings.add("a.count", count, Settings::Range{-5, 64}, "Count");
    settings.add("a.bytes", bytes, Settings::ByteRange{16, 1UL << 30U}, "Bytes");
    settings.add("a.wait_ms", wait, {Millis(1), Millis(100'000)}, "Wait");
    settings.add("a.ttl", ttl, {Millis(0), Millis(10'000'000)}, "Time to live");
    settings.add("b.text", text, "Text");
    settings.add("b.password", password, "Password").secret();
    settings.add("b.colour", colour, {{"red", Colour::Red}, {"green", Colour::Green}}, "Colour");
    settings.add("b.deep.hosts", hosts, "Hosts");
  }

  bool flag = true;
  int count = 2;
  std::size_t bytes = 1024;
  Millis wait{60'000};
  Millis ttl{3'600'000};
  std::string text;
  std::string password;
  Colour colour = Colour::Green;
  std::vector<std::string> hosts;
  Settings settings;
};

// A file that is never on a disk, with this text.
class File {
 public:
  std::string holding(std::string_view text) {
    require(::ftruncate(file_, 0) == 0);
    require(::pwrite(file_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
    return "/proc/self/fd/" + std::to_string(file_);
  }

 private:
  const int file_ = ::memfd_create("settings", MFD_CLOEXEC);
};

// Text up to the next line break is an assignment; all that follows the last '%' is a file.
Settings::Sources sourcesOf(std::string_view input, File& file) {
  Settings::Sources sources;
  const std::size_t mark = input.rfind('%');
  if (mark != input.npos) sources.file = file.holding(input.substr(mark + 1));
  input = input.substr(0, mark);
  while (!input.empty()) {
    const std::string line(input.substr(0, input.find('\n')));
    input.remove_prefix(std::min(line.size() + 1, input.size()));
    const std::size_t equals = line.find('=');
    if (equals == line.npos) continue;
    const std::string name = line.substr(0, equals);
    const std::string value = line.substr(equals + 1);
    if (name.starts_with("NIMBUS_")) {
      sources.environment.emplace_back(name, value);
    } else {
      sources.assignments.push_back({name, value, "--set"});
    }
  }
  return sources;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static File file;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  Table table;
  Settings::Sources sources = sourcesOf(input, file);
  sources.assignments.push_back({"b.password", std::string(kSecret), "--set"});
  const auto problems = table.settings.load(sources);
  for (const Settings::Problem& problem : problems) require(!problem.where.empty());
  static_cast<void>(table.settings.warnings());
  if (!problems.empty()) return 0;

  const std::string shown = table.settings.show();
  require(shown.find(kSecret) == shown.npos || input.find(kSecret) != input.npos);
  Settings::Sources again_from;
  again_from.file = file.holding(shown);
  Table again;
  require(again.settings.load(again_from).empty());
  require(again.flag == table.flag && again.count == table.count && again.bytes == table.bytes);
  require(again.wait == table.wait && again.ttl == table.ttl && again.colour == table.colour);
  require(again.hosts.size() == table.hosts.size());
  return 0;
}
