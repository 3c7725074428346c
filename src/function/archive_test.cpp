#include "function/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>

#include <clocale>
#include <functional>
#include <vector>

namespace nimbus::function {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;

enum class Format { Tar, TarGz, Zip };

// Makes archives as strangers do, with whatever they put in.
class Packer {
 public:
  explicit Packer(Format format) : archive_(::archive_write_new()), bytes_(kRoom, '\0') {
    if (format == Format::Zip) {
      ::archive_write_set_format_zip(archive_);
    } else {
      ::archive_write_set_format_pax_restricted(archive_);
      if (format == Format::TarGz) ::archive_write_add_filter_gzip(archive_);
    }
    ::archive_write_set_bytes_in_last_block(archive_, 1);
    EXPECT_EQ(::archive_write_open_memory(archive_, bytes_.data(), bytes_.size(), &used_),
              ARCHIVE_OK);
  }
  ~Packer() { ::archive_write_free(archive_); }
  Packer(const Packer&) = delete;
  Packer& operator=(const Packer&) = delete;

  Packer& file(const std::string& path, std::string_view content, unsigned mode = 0644) {
    return add(path, AE_IFREG, content,
               [&](::archive_entry* entry) { ::archive_entry_set_perm(entry, mode); });
  }
  Packer& folder(const std::string& path) { return add(path, AE_IFDIR, "", nullptr); }
  Packer& symlink(const std::string& path, const std::string& target) {
    return add(path, AE_IFLNK, "",
               [&](::archive_entry* entry) { ::archive_entry_set_symlink(entry, target.c_str()); });
  }
  Packer& hardlink(const std::string& path, const std::string& target) {
    return add(path, AE_IFREG, "", [&](::archive_entry* entry) {
      ::archive_entry_set_hardlink(entry, target.c_str());
    });
  }
  Packer& device(const std::string& path, unsigned type) { return add(path, type, "", nullptr); }

  std::string finish() {
    EXPECT_EQ(::archive_write_close(archive_), ARCHIVE_OK);
    bytes_.resize(used_);
    return bytes_;
  }

 private:
  static constexpr std::size_t kRoom = 8UL * 1024 * 1024;

  Packer& add(const std::string& path, unsigned type, std::string_view content,
              const std::function<void(::archive_entry*)>& change) {
    // Strangers have other locales than the server, which has none.
    std::setlocale(LC_CTYPE, "C.UTF-8");
    ::archive_entry* const entry = ::archive_entry_new();
    ::archive_entry_set_pathname(entry, path.c_str());
    ::archive_entry_set_filetype(entry, type);
    ::archive_entry_set_perm(entry, 0644);
    ::archive_entry_set_size(entry, static_cast<la_int64_t>(content.size()));
    if (change) change(entry);
    EXPECT_GE(::archive_write_header(archive_, entry), ARCHIVE_WARN)
        << ::archive_error_string(archive_);
    std::string_view rest = content;
    while (!rest.empty()) {
      const auto written = ::archive_write_data(archive_, rest.data(), rest.size());
      EXPECT_GT(written, 0);
      if (written <= 0) break;
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
    ::archive_entry_free(entry);
    std::setlocale(LC_CTYPE, "C");
    return *this;
  }

  ::archive* archive_;
  std::string bytes_;
  std::size_t used_ = 0;
};

class ArchiveTest : public ::testing::TestWithParam<Format> {
 protected:
  std::string refusal(Packer& packer) {
    auto unpacked = unpack(packer.finish());
    EXPECT_FALSE(unpacked);
    if (unpacked) return "(accepted)";
    EXPECT_EQ(unpacked.error().code(), Code::InvalidArgument);
    return unpacked.error().message();
  }

  Packer packer_{GetParam()};
};

using CompressedArchiveTest = ArchiveTest;

TEST_P(ArchiveTest, FilesAreUnpackedWithTheirModes) {
  const std::string binary("\0\xff\n", 3);
  packer_.folder("./").folder("./lib/").file("./main.py", "code").file("./lib/x.bin", binary);
  packer_.file("bin/run", "x", 0755).file("empty", "");
  const auto bundle = unpack(packer_.finish());
  ASSERT_TRUE(bundle) << bundle.error().message();
  EXPECT_THAT(bundle->files(),
              ElementsAre(Key("bin/run"), Key("empty"), Key("lib/x.bin"), Key("main.py")));
  EXPECT_EQ(bundle->files().at("lib/x.bin").bytes, binary);
  EXPECT_EQ(bundle->files().at("bin/run").mode, Bundle::Mode::Executable);
  EXPECT_EQ(bundle->files().at("main.py").mode, Bundle::Mode::Plain);
}

TEST_P(ArchiveTest, ATopFolderIsNotTakenOff) {
  packer_.folder("cart/").file("cart/main.py", "").file("cart/util.py", "");
  EXPECT_THAT(unpack(packer_.finish())->files(),
              ElementsAre(Key("cart/main.py"), Key("cart/util.py")));
}

TEST_P(ArchiveTest, NamesMayHaveAnyLetters) {
  packer_.file("grüße/日本.py", "x");
  const auto bundle = unpack(packer_.finish());
  ASSERT_TRUE(bundle) << bundle.error().message();
  EXPECT_THAT(bundle->files(), ElementsAre(Key("grüße/日本.py")));
}

TEST_P(ArchiveTest, ManyFilesAreFine) {
  for (int i = 0; i < 2'000; ++i) packer_.file("f" + std::to_string(i), "x");
  const auto bundle = unpack(packer_.finish());
  ASSERT_TRUE(bundle) << bundle.error().message();
  EXPECT_EQ(bundle->files().size(), 2'000U);
}

TEST_P(ArchiveTest, OneFileTooManyIsRefused) {
  for (int i = 0; i < 2'001; ++i) packer_.file("f" + std::to_string(i), "");
  const auto bundle = unpack(packer_.finish());
  ASSERT_FALSE(bundle);
  EXPECT_EQ(bundle.error().code(), Code::TooLarge);
}

TEST_P(CompressedArchiveTest, FoldersWithoutEndAreRefused) {
  for (int i = 0; i < 10'001; ++i) packer_.folder("d" + std::to_string(i) + "/");
  const auto bundle = unpack(packer_.finish());
  ASSERT_FALSE(bundle);
  EXPECT_EQ(bundle.error().code(), Code::TooLarge);
}

TEST_P(ArchiveTest, PathsThatClimbAreRefused) {
  packer_.file("main.py", "").file("a/../../evil", "x");
  EXPECT_THAT(refusal(packer_), HasSubstr("a/../../evil"));
}

TEST_P(ArchiveTest, FoldersThatClimbAreRefused) {
  packer_.folder("../evil/").file("main.py", "");
  EXPECT_THAT(refusal(packer_), HasSubstr("../evil"));
}

TEST_P(ArchiveTest, AbsolutePathsAreRefused) {
  packer_.file("/etc/cron.d/evil", "x");
  EXPECT_THAT(refusal(packer_), HasSubstr("/etc/cron.d/evil"));
}

TEST_P(ArchiveTest, PathsOfAnotherSystemAreRefused) {
  packer_.file("..\\evil", "x");
  EXPECT_THAT(refusal(packer_), HasSubstr("evil"));
}

TEST_P(ArchiveTest, SymbolicLinksAreRefused) {
  packer_.file("main.py", "").symlink("link", "/etc/passwd");
  EXPECT_THAT(refusal(packer_), AllOf(HasSubstr("link"), HasSubstr("is a link")));
}

TEST_P(ArchiveTest, ALinkThatLaterFilesWouldGoThroughIsRefused) {
  packer_.symlink("lib", "/etc").file("lib/passwd", "x");
  EXPECT_THAT(refusal(packer_), AllOf(HasSubstr("\"lib\""), HasSubstr("is a link")));
}

TEST_P(ArchiveTest, TheSamePathTwiceIsRefused) {
  packer_.file("main.py", "1").file("./main.py", "2");
  EXPECT_THAT(refusal(packer_), HasSubstr("main.py"));
}

TEST_P(ArchiveTest, AFileThatIsAlsoAFolderIsRefused) {
  packer_.file("a", "1").file("a/b", "2");
  EXPECT_THAT(refusal(packer_), HasSubstr("\"a\" is a file and a folder"));
}

TEST_P(ArchiveTest, AFileThatIsAlsoAnEmptyFolderIsRefused) {
  packer_.folder("a/").file("a", "1");
  EXPECT_THAT(refusal(packer_), HasSubstr("\"a\" is a file and a folder"));
}

TEST_P(CompressedArchiveTest, WhatUnpacksToTooMuchIsRefusedBeforeItHas) {
  const std::string zeros(Bundle::kMaxBytes / 2 + 1, '\0');
  packer_.file("a", zeros).file("b", zeros);
  const std::string archive = packer_.finish();
  EXPECT_LT(archive.size(), 200'000U);
  const auto bundle = unpack(archive);
  ASSERT_FALSE(bundle);
  EXPECT_EQ(bundle.error().code(), Code::TooLarge);
  EXPECT_THAT(bundle.error().message(), HasSubstr("\"b\""));
}

TEST_P(ArchiveTest, WhatWasCutOffIsRefused) {
  std::string content;
  for (int i = 0; i < 50'000; ++i) content += std::to_string(i * 7919);
  packer_.file("main.py", content);
  const std::string archive = packer_.finish();
  for (const std::size_t length : {archive.size() / 2, archive.size() / 4, std::size_t{600}}) {
    const auto bundle = unpack(archive.substr(0, length));
    ASSERT_FALSE(bundle) << length;
    EXPECT_EQ(bundle.error().code(), Code::InvalidArgument);
  }
}

TEST_P(ArchiveTest, DamageDoesNoHarm) {
  packer_.file("main.py", "some code").file("a/b", std::string(1'000, 'x'));
  const std::string archive = packer_.finish();
  for (std::size_t i = 0; i < std::min<std::size_t>(archive.size(), 2'000); ++i) {
    std::string damaged = archive;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x5a);
    const auto bundle = unpack(damaged);
    if (!bundle) continue;
    for (const auto& [path, file] : bundle->files()) EXPECT_TRUE(checkPath(path));
  }
}

std::string nameOf(const ::testing::TestParamInfo<Format>& format) {
  switch (format.param) {
    case Format::Tar:
      return "Tar";
    case Format::TarGz:
      return "TarGz";
    default:
      return "Zip";
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, ArchiveTest,
                         ::testing::Values(Format::Tar, Format::TarGz, Format::Zip), nameOf);
INSTANTIATE_TEST_SUITE_P(Formats, CompressedArchiveTest,
                         ::testing::Values(Format::TarGz, Format::Zip), nameOf);

std::string gzip(std::string_view bytes) {
  ::archive* const archive = ::archive_write_new();
  ::archive_write_add_filter_gzip(archive);
  ::archive_write_set_format_raw(archive);
  std::string out(bytes.size() + 100'000, '\0');
  std::size_t used = 0;
  EXPECT_EQ(::archive_write_open_memory(archive, out.data(), out.size(), &used), ARCHIVE_OK);
  ::archive_entry* const entry = ::archive_entry_new();
  ::archive_entry_set_filetype(entry, AE_IFREG);
  EXPECT_EQ(::archive_write_header(archive, entry), ARCHIVE_OK);
  EXPECT_EQ(::archive_write_data(archive, bytes.data(), bytes.size()),
            static_cast<la_ssize_t>(bytes.size()));
  ::archive_entry_free(entry);
  ::archive_write_free(archive);
  out.resize(used);
  return out;
}

std::string refusalOf(std::string_view archive) {
  const auto bundle = unpack(archive);
  EXPECT_FALSE(bundle);
  if (bundle) return "(accepted)";
  EXPECT_EQ(bundle.error().code(), Code::InvalidArgument);
  return bundle.error().message();
}

TEST(UnpackTest, WhatIsNoArchiveIsRefused) {
  for (const std::string& bytes : {std::string(), std::string("hello"), std::string(10'000, 'x'),
                                   std::string("PK\3\4"), std::string("\x1f\x8b\x08\0", 4)}) {
    EXPECT_THAT(refusalOf(bytes), HasSubstr("archive")) << bytes.size();
  }
}

TEST(UnpackTest, OnlyOneLayerOfCompressionIsTaken) {
  const std::string tar = Packer(Format::Tar).file("main.py", "x").finish();
  const std::string zip = Packer(Format::Zip).file("main.py", "x").finish();
  EXPECT_TRUE(unpack(gzip(tar)));
  EXPECT_THAT(refusalOf(gzip(gzip(tar))), HasSubstr("twice"));
  EXPECT_FALSE(unpack(gzip(zip)));
}

TEST(UnpackTest, OtherFormatsAreNotRead) {
  // libarchive would take this for a description of files on this machine.
  EXPECT_FALSE(unpack("#mtree\n./passwd type=file contents=/etc/passwd\n"));
  EXPECT_FALSE(unpack("!<arch>\n"));
}

TEST(UnpackTest, HardLinksAndDevicesAreRefused) {
  EXPECT_THAT(refusalOf(Packer(Format::Tar).file("a", "x").hardlink("b", "a").finish()),
              AllOf(HasSubstr("\"b\""), HasSubstr("link")));
  EXPECT_THAT(refusalOf(Packer(Format::Tar).hardlink("b", "/etc/passwd").finish()),
              HasSubstr("link"));
  for (const unsigned type : {AE_IFIFO, AE_IFCHR, AE_IFBLK}) {
    EXPECT_THAT(refusalOf(Packer(Format::Tar).device("dev", type).finish()),
                AllOf(HasSubstr("dev"), HasSubstr("neither")));
  }
}

TEST(UnpackTest, AFolderThatClaimsToHoldBytesIsRefused) {
  std::string zip = Packer(Format::Zip).file("folder_", std::string(5'000, 'x')).finish();
  // A name that ends so is a folder's; it stands in the entry and in the list of entries.
  for (std::size_t at = zip.find("folder_"); at != zip.npos; at = zip.find("folder_", at)) {
    zip.replace(at, 7, "folder/");
  }
  EXPECT_THAT(refusalOf(zip), HasSubstr("folder/"));
}

TEST(UnpackTest, ANameThatIsNotUtf8IsRefused) {
  std::string tar = Packer(Format::Tar).file("x@", "").finish();
  // The checksum of the head stays the same.
  tar.replace(0, 2, "\x38\x80");
  EXPECT_THAT(refusalOf(tar), HasSubstr("UTF-8"));
}

TEST(UnpackTest, AnArchiveWithoutFilesIsEmpty) {
  EXPECT_THAT(unpack(Packer(Format::Tar).folder("a/").finish())->files(), IsEmpty());
}

}  // namespace
}  // namespace nimbus::function
