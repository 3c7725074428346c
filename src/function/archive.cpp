#include "function/archive.h"

#include "function/shown.h"
#include "function/utf8_names.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <utility>

namespace nimbus::function {
namespace {

// Entries of any kind. Folders cost nothing in a bundle, so it does not count them.
constexpr std::size_t kMaxEntries = 10'000;

struct CloseArchive {
  void operator()(::archive* archive) const { ::archive_read_free(archive); }
};
using Archive = std::unique_ptr<::archive, CloseArchive>;

Error invalid(std::string what) {
  return {Code::InvalidArgument, std::move(what)};
}

std::string reason(::archive* archive) {
  const char* text = ::archive_error_string(archive);
  return text != nullptr ? shown(text) : "it is damaged";
}

// Empty if it has none that can be read.
std::string pathOf(::archive_entry* entry) {
  // The second is for bytes that are no UTF-8: whoever shows or refuses them wants to see them.
  const char* path = ::archive_entry_pathname_utf8(entry);
  if (path == nullptr) path = ::archive_entry_pathname(entry);
  return path != nullptr ? path : "";
}

class Unpacking {
 public:
  Result<Bundle> run(std::string_view bytes) {
    NIMBUS_CHECK(open(bytes));
    for (std::size_t entries = 0;; ++entries) {
      ::archive_entry* entry = nullptr;
      const int status = ::archive_read_next_header(archive_.get(), &entry);
      if (status == ARCHIVE_EOF) break;
      // Warnings are about owners, times and names; the last are looked at below.
      if (status != ARCHIVE_OK && status != ARCHIVE_WARN) {
        return invalid(fmt::format("the archive cannot be read: {}", reason(archive_.get())));
      }
      if (entries == kMaxEntries) {
        return Error(Code::TooLarge,
                     fmt::format("the archive has more than {} entries", kMaxEntries))
            .with("limit", static_cast<std::int64_t>(kMaxEntries));
      }
      NIMBUS_CHECK(add(entry));
    }
    for (const std::string& folder : folders_) {
      if (!bundle_.files().contains(folder)) continue;
      return invalid(fmt::format("\"{}\" is a file and a folder", shown(folder)));
    }
    return std::move(bundle_);
  }

 private:
  Result<> open(std::string_view bytes) {
    archive_.reset(::archive_read_new());
    ::archive* const archive = archive_.get();
    if (archive == nullptr) return Error(Code::Internal, "no memory to read an archive");
    // These and no others: libarchive knows formats that name files of this machine (mtree), and
    // each is code that reads strangers' bytes.
    ::archive_read_support_filter_gzip(archive);
    ::archive_read_support_format_tar(archive);
    ::archive_read_support_format_zip(archive);
    if (::archive_read_open_memory(archive, bytes.data(), bytes.size()) != ARCHIVE_OK) {
      return invalid(fmt::format("this is no tar, tar.gz or zip archive: {}", reason(archive)));
    }
    // Each layer of gzip can make a thousand bytes of one. The innermost filter, which does
    // nothing, counts too.
    if (::archive_filter_count(archive) > 2) return invalid("the archive is compressed twice");
    return {};
  }

  Result<> add(::archive_entry* entry) {
    const bool is_zip =
        (::archive_format(archive_.get()) & ARCHIVE_FORMAT_BASE_MASK) == ARCHIVE_FORMAT_ZIP;
    if (is_zip && ::archive_filter_count(archive_.get()) > 1) {
      return invalid("the archive is compressed twice");
    }
    const std::string path = pathOf(entry);
    const auto refused = [&](std::string_view what) {
      return invalid(fmt::format("\"{}\" in the archive {}", shown(path), what));
    };
    if (::archive_entry_hardlink(entry) != nullptr) return refused("is a link");
    if (::archive_entry_is_encrypted(entry) != 0) return refused("is encrypted");
    switch (::archive_entry_filetype(entry)) {
      case AE_IFREG:
        return addFile(path, entry);
      case AE_IFDIR:
        // Passing over what a folder claims to hold would be unpacking without a limit.
        if (::archive_entry_size(entry) > 0) return refused("is a folder with content");
        return addFolder(path);
      case AE_IFLNK:
        return refused("is a link");
      default:
        return refused("is neither a file nor a folder");
    }
  }

  Result<> addFolder(std::string_view path) {
    while (path.starts_with("./")) path.remove_prefix(2);
    if (path.ends_with('/')) path.remove_suffix(1);
    if (path.empty() || path == ".") return {};
    NIMBUS_CHECK(checkPath(path));
    folders_.emplace(path);
    return {};
  }

  Result<> addFile(const std::string& path, ::archive_entry* entry) {
    NIMBUS_TRY(std::string bytes, contentOf(path));
    const bool executable = (::archive_entry_perm(entry) & 0111) != 0;
    return bundle_.add(path, std::move(bytes),
                       executable ? Bundle::Mode::Executable : Bundle::Mode::Plain);
  }

  // At most one block more than there is room for; add() then refuses it. What the entry says of
  // its size is not believed.
  Result<std::string> contentOf(std::string_view path) {
    const std::size_t room = Bundle::kMaxBytes - bundle_.bytes();
    std::array<char, 65'536> block{};
    std::string bytes;
    while (bytes.size() <= room) {
      const auto got = ::archive_read_data(archive_.get(), block.data(), block.size());
      if (got < 0) {
        return invalid(fmt::format("\"{}\" in the archive cannot be read: {}", shown(path),
                                   reason(archive_.get())));
      }
      if (got == 0) break;
      bytes.append(block.data(), static_cast<std::size_t>(got));
    }
    return bytes;
  }

  Archive archive_;
  Bundle bundle_;
  std::set<std::string, std::less<>> folders_;
};

}  // namespace

Result<Bundle> unpack(std::string_view archive) {
  const Utf8Names names;
  return Unpacking().run(archive);
}

}  // namespace nimbus::function
