#include "function/upload.h"

#include "base/json.h"
#include "function/archive.h"
#include "function/settings_reader.h"
#include "function/shown.h"

#include <fmt/format.h>
#include <sodium.h>

#include <string>

namespace nimbus::function {
namespace {

Result<Bundle> fromFiles(const JsonValue& files) {
  if (!files.isObject()) return wrongField("files", "must be an object of paths and texts");
  Bundle bundle;
  for (const auto& [path, value] : files.members()) {
    const auto text = value.string();
    if (!text) return wrongField("files", fmt::format("must hold texts; {} is none", shown(path)));
    NIMBUS_CHECK(bundle.add(path, std::string(*text), Bundle::Mode::Plain));
  }
  return bundle;
}

Result<std::string> decodeBase64(std::string_view text) {
  std::string bytes(text.size() / 4 * 3, '\0');
  std::size_t length = 0;
  // NOLINTNEXTLINE(*-reinterpret-cast): bytes are bytes
  auto* const out = reinterpret_cast<unsigned char*>(bytes.data());
  const char* end = nullptr;
  const int failed = ::sodium_base642bin(out, bytes.size(), text.data(), text.size(), nullptr,
                                         &length, &end, sodium_base64_VARIANT_ORIGINAL);
  if (failed != 0 || end != text.data() + text.size()) {
    return wrongField("archive_base64", "must be base64, with padding and without spaces");
  }
  bytes.resize(length);
  return bytes;
}

Result<Bundle> fromArchive(const JsonValue& archive) {
  const auto text = archive.string();
  if (!text) return wrongField("archive_base64", "must be text");
  NIMBUS_TRY(const std::string bytes, decodeBase64(*text));
  auto unpacked = unpack(bytes);
  if (!unpacked) return std::move(unpacked).error().in("archive_base64");
  return unpacked;
}

}  // namespace

Result<std::optional<Bundle>> readCode(std::string_view body) {
  NIMBUS_TRY(const JsonValue object, parseJson(body));
  const auto files = object.member("files");
  const auto archive = object.member("archive_base64");
  if (!files && !archive) return std::nullopt;
  NIMBUS_TRY(Bundle bundle, files ? fromFiles(*files) : fromArchive(*archive));
  if (bundle.files().empty()) return wrongField(files ? "files" : "archive_base64", "has no file");
  return std::optional(std::move(bundle));
}

}  // namespace nimbus::function
