#include "store/partition.h"

#include <gtest/gtest.h>

#include <set>

namespace nimbus::store {
namespace {

TEST(PartitionTest, ReadsAsItsParts) {
  EXPECT_EQ(Partition("session", {"cart", "alice"}).name(), "session:cart:alice");
}

TEST(PartitionTest, TheSeparatorInAPartIsData) {
  EXPECT_NE(Partition("s", {"a:b", "c"}), Partition("s", {"a", "b:c"}));
  EXPECT_NE(Partition("s", {"a", "b"}), Partition("s", {"a:b"}));
  EXPECT_NE(Partition("s", {"a%3Ab"}), Partition("s", {"a:b"}));
}

TEST(PartitionTest, EmptyAndMissingPartsDiffer) {
  const std::set<Partition> all = {Partition("s", {}), Partition("s", {""}),
                                   Partition("s", {"", ""})};
  EXPECT_EQ(all.size(), 3U);
}

TEST(PartitionTest, HoldsNothingARedisHashTagOrGlobWouldReadIntoIt) {
  const std::string name = Partition("s", {"{x}*?[a-z]\\/ %"}).name();
  EXPECT_EQ(name.find_first_of("{}*?[]\\/ "), std::string::npos) << name;
}

TEST(PartitionTest, UnicodeStaysReadable) {
  EXPECT_EQ(Partition("s", {"käse-🧀"}).name(), "s:käse-🧀");
}

TEST(PartitionTest, EveryByteIsToldApart) {
  std::set<std::string> names;
  for (int byte = 0; byte < 256; ++byte)
    names.insert(encodePart(std::string(1, static_cast<char>(byte))));
  EXPECT_EQ(names.size(), 256U);
}

}  // namespace
}  // namespace nimbus::store
