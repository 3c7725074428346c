#include "function/pack.h"

#include "function/utf8_names.h"

#include <archive.h>
#include <archive_entry.h>
#include <sodium.h>

#include <memory>
#include <utility>

namespace nimbus::function {
namespace {

struct FreeArchive {
  void operator()(::archive* archive) const { ::archive_write_free(archive); }
};
using Archive = std::unique_ptr<::archive, FreeArchive>;

struct FreeEntry {
  void operator()(::archive_entry* entry) const { ::archive_entry_free(entry); }
};
using Entry = std::unique_ptr<::archive_entry, FreeEntry>;

::la_ssize_t append(::archive*, void* out, const void* bytes, std::size_t count) {
  static_cast<std::string*>(out)->append(static_cast<const char*>(bytes), count);
  return static_cast<::la_ssize_t>(count);
}

Error failed(::archive* archive) {
  const char* const text = ::archive_error_string(archive);
  return {Code::Internal, std::string("packing failed: ") + (text != nullptr ? text : "unknown")};
}

Result<> add(::archive* archive, const std::string& path, const Bundle::File& file) {
  const Entry entry(::archive_entry_new());
  ::archive_entry_set_pathname_utf8(entry.get(), path.c_str());
  // Without a locale that can say it libarchive would write none, and not survive it.
  if (::archive_entry_pathname(entry.get()) == nullptr) {
    return Error(Code::Internal, "packing failed: the path of a file cannot be written");
  }
  ::archive_entry_set_filetype(entry.get(), AE_IFREG);
  ::archive_entry_set_perm(entry.get(), file.mode == Bundle::Mode::Executable ? 0755 : 0644);
  ::archive_entry_set_size(entry.get(), static_cast<::la_int64_t>(file.bytes.size()));
  if (::archive_write_header(archive, entry.get()) != ARCHIVE_OK) return failed(archive);
  const ::la_ssize_t written = ::archive_write_data(archive, file.bytes.data(), file.bytes.size());
  if (written != static_cast<::la_ssize_t>(file.bytes.size())) return failed(archive);
  return {};
}

std::string base64(const std::string& bytes) {
  constexpr int kVariant = sodium_base64_VARIANT_ORIGINAL;
  std::string text(sodium_base64_encoded_len(bytes.size(), kVariant), '\0');
  // NOLINTNEXTLINE(*-reinterpret-cast): bytes are bytes
  const auto* const in = reinterpret_cast<const unsigned char*>(bytes.data());
  ::sodium_bin2base64(text.data(), text.size(), in, bytes.size(), kVariant);
  text.pop_back();  // the 0 at its end
  return text;
}

}  // namespace

Result<std::string> packBase64(const Bundle& bundle) {
  const Utf8Names names;
  std::string packed;
  const Archive archive(::archive_write_new());
  ::archive_write_set_format_pax_restricted(archive.get());
  if (::archive_write_open(archive.get(), &packed, nullptr, append, nullptr) != ARCHIVE_OK) {
    return failed(archive.get());
  }
  for (const auto& [path, file] : bundle.files()) NIMBUS_CHECK(add(archive.get(), path, file));
  if (::archive_write_close(archive.get()) != ARCHIVE_OK) return failed(archive.get());
  return base64(packed);
}

}  // namespace nimbus::function
