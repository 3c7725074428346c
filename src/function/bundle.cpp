// The encoded form, all numbers little-endian:
//   "nimbus code 1\n"
//   of each file, in the order of the paths' bytes:
//     u32 length of the path   u8 mode (0 plain, 1 executable)   u64 length of the bytes
//     the path                 the bytes
// Every part has its length before it, so no two bundles look alike, and the hash is that of this
// form.
#include "function/bundle.h"

#include "base/ids.h"
#include "function/shown.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <optional>

namespace nimbus::function {
namespace {

constexpr std::string_view kMagic = "nimbus code 1\n";
constexpr std::size_t kMaxPathBytes = 1'024;
constexpr std::size_t kMaxComponentBytes = 255;
// Every file could bring that many folders.
constexpr std::size_t kMaxComponents = 64;

Error invalid(std::string what) {
  return {Code::InvalidArgument, std::move(what)};
}

std::string named(std::string_view path) {
  return fmt::format("\"{}\"", shown(path));
}

bool beginsLikeAProgram(std::string_view bytes) {
  return bytes.starts_with("#!") || bytes.starts_with(
                                        "\x7f"
                                        "ELF");
}

void appendNumber(std::string& out, std::uint64_t number, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out += static_cast<char>(number >> (8 * i) & 0xff);
}

// What is left to read of an encoded form.
class Input {
 public:
  explicit Input(std::string_view bytes) : rest_(bytes) {}

  bool empty() const { return rest_.empty(); }
  std::optional<std::string_view> take(std::uint64_t length) {
    if (length > rest_.size()) return std::nullopt;
    const std::string_view taken = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return taken;
  }
  std::optional<std::uint64_t> number(std::size_t bytes) {
    const auto taken = take(bytes);
    if (!taken) return std::nullopt;
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < bytes; ++i) {
      number |= static_cast<std::uint64_t>(static_cast<unsigned char>((*taken)[i])) << (8 * i);
    }
    return number;
  }

 private:
  std::string_view rest_;
};

// Hands the encoded form to `sink` piece by piece: a copy of all code at once is not needed to hash
// it.
template <typename Sink>
void encodeInto(const std::map<std::string, Bundle::File, std::less<>>& files, Sink sink) {
  sink(kMagic);
  for (const auto& [path, file] : files) {
    std::string head;
    appendNumber(head, path.size(), 4);
    appendNumber(head, file.mode == Bundle::Mode::Executable ? 1 : 0, 1);
    appendNumber(head, file.bytes.size(), 8);
    head += path;
    sink(head);
    sink(file.bytes);
  }
}

}  // namespace

Result<> checkPath(std::string_view path) {
  const std::string what = fmt::format("path {}", named(path));
  const auto refused = [&](std::string_view why) {
    return invalid(fmt::format("{} {}", what, why));
  };
  if (path.size() > kMaxPathBytes) {
    return refused(fmt::format("has more than {} bytes", kMaxPathBytes));
  }
  if (path.starts_with('/')) return refused("is not relative");
  std::size_t components = 0;
  for (std::string_view rest = path;;) {
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    const std::string_view component = rest.substr(0, slash);
    if (component.empty()) return refused("has an empty component");
    if (component == "." || component == "..") return refused("has a component of dots");
    if (component.size() > kMaxComponentBytes) {
      return refused(fmt::format("has a component of more than {} bytes", kMaxComponentBytes));
    }
    if (component.find('\\') != component.npos) return refused("has a backslash");
    NIMBUS_CHECK(checkText(what, component));
    if (++components > kMaxComponents) {
      return refused(fmt::format("is more than {} deep", kMaxComponents));
    }
    if (slash == rest.size()) return {};
    rest.remove_prefix(slash + 1);
  }
}

Result<> Bundle::add(std::string_view path, std::string bytes, Mode mode) {
  while (path.starts_with("./")) path.remove_prefix(2);
  NIMBUS_CHECK(checkPath(path));
  if (files_.contains(path)) return invalid(fmt::format("file {} is there twice", named(path)));
  if (files_.size() == kMaxFiles) {
    return Error(Code::TooLarge, fmt::format("file {} is one more than {}", named(path), kMaxFiles))
        .with("limit", static_cast<std::int64_t>(kMaxFiles));
  }
  if (bytes.size() > kMaxBytes - bytes_) {
    return Error(Code::TooLarge,
                 fmt::format("with {} the files have more than {} bytes", named(path), kMaxBytes))
        .with("limit", static_cast<std::int64_t>(kMaxBytes));
  }

  const auto both = [](std::string_view what) {
    return invalid(fmt::format("{} is a file and a folder", named(what)));
  };
  const std::string as_folder = std::string(path) + "/";
  const auto below = files_.lower_bound(as_folder);
  if (below != files_.end() && below->first.starts_with(as_folder)) return both(path);
  for (std::size_t slash = path.find('/'); slash != path.npos; slash = path.find('/', slash + 1)) {
    if (files_.contains(path.substr(0, slash))) return both(path.substr(0, slash));
  }

  if (beginsLikeAProgram(bytes)) mode = Mode::Executable;
  bytes_ += bytes.size();
  files_.emplace(path, File{std::move(bytes), mode});
  return {};
}

std::string Bundle::hash() const {
  crypto_hash_sha256_state state;
  crypto_hash_sha256_init(&state);
  encodeInto(files_, [&](std::string_view piece) {
    // NOLINTNEXTLINE(*-reinterpret-cast): bytes are bytes
    const auto* data = reinterpret_cast<const unsigned char*>(piece.data());
    crypto_hash_sha256_update(&state, data, piece.size());
  });
  std::array<unsigned char, crypto_hash_sha256_BYTES> digest{};
  crypto_hash_sha256_final(&state, digest.data());
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

std::string Bundle::encode() const {
  std::string encoded;
  encodeInto(files_, [&](std::string_view piece) { encoded += piece; });
  return encoded;
}

Result<Bundle> Bundle::decode(std::string_view encoded) {
  const Error damaged(Code::Internal, "the stored code is damaged");
  Input input(encoded);
  if (input.take(kMagic.size()) != kMagic) return damaged;
  Bundle bundle;
  while (!input.empty()) {
    const auto path_length = input.number(4);
    const auto mode = input.number(1);
    const auto length = input.number(8);
    if (!path_length || !mode || *mode > 1 || !length) return damaged;
    const auto path = input.take(*path_length);
    const auto bytes = input.take(*length);
    if (!path || !bytes) return damaged;
    if (!bundle.add(*path, std::string(*bytes), *mode == 1 ? Mode::Executable : Mode::Plain)) {
      return damaged;
    }
  }
  return bundle;
}

}  // namespace nimbus::function
