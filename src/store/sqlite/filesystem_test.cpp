#include "store/sqlite/filesystem.h"

#include "base/testing/temporary_directory.h"

#include <gtest/gtest.h>

namespace nimbus::store::sqlite {
namespace {

constexpr std::string_view kMounts =
    "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
    "30 22 0:25 / /srv rw,relatime shared:9 - nfs4 server:/export rw\n"
    "31 30 254:1 / /srv/local rw - xfs /dev/vdb rw\n"
    "32 22 0:26 / /with\\040space rw - fuse.sshfs host:/ rw\n"
    "33 22 0:27 / /twice rw - ext4 /dev/vdc rw\n"
    "34 22 0:28 / /twice rw - cifs //host/share rw\n"
    "broken line\n";

TEST(FileSystemTest, TheLongestMountPointCounts) {
  EXPECT_EQ(fileSystemOf("/var/lib/nimbus", kMounts), "ext4");
  EXPECT_EQ(fileSystemOf("/srv/data", kMounts), "nfs4");
  EXPECT_EQ(fileSystemOf("/srv/local/data", kMounts), "xfs");
  EXPECT_EQ(fileSystemOf("/srv", kMounts), "nfs4");
}

TEST(FileSystemTest, AMountPointIsAPathNotAPrefix) {
  EXPECT_EQ(fileSystemOf("/srv-data", kMounts), "ext4");
}

TEST(FileSystemTest, EscapesInMountPointsAreRead) {
  EXPECT_EQ(fileSystemOf("/with space/data", kMounts), "fuse.sshfs");
}

TEST(FileSystemTest, TheLaterOfTwoMountsHidesTheEarlier) {
  EXPECT_EQ(fileSystemOf("/twice/data", kMounts), "cifs");
}

TEST(FileSystemTest, NetworkFileSystemsAreKnownByName) {
  for (const char* type :
       {"nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "fuse.sshfs", "fuse.s3fs"}) {
    EXPECT_TRUE(isNetworkFileSystem(type)) << type;
  }
  for (const char* type :
       {"ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "fuseblk", "fuse.fuse-overlayfs", ""}) {
    EXPECT_FALSE(isNetworkFileSystem(type)) << type;
  }
}

TEST(FileSystemTest, TheTemporaryDirectoryIsLocal) {
  const TemporaryDirectory directory;
  EXPECT_TRUE(checkLocal(directory.path()));
}

TEST(FileSystemTest, AMissingDirectoryIsNamed) {
  const auto checked = checkLocal("/no/such/place");
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code(), Code::InvalidArgument);
  EXPECT_NE(checked.error().message().find("/no/such/place"), std::string::npos);
}

}  // namespace
}  // namespace nimbus::store::sqlite
