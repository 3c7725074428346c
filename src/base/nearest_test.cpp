#include "base/nearest.h"

#include <gtest/gtest.h>

#include <array>
#include <string_view>
#include <vector>

namespace nimbus {
namespace {

TEST(NearestTest, EditDistanceCountsInsertionsDeletionsAndReplacements) {
  EXPECT_EQ(editDistance("", ""), 0U);
  EXPECT_EQ(editDistance("abc", ""), 3U);
  EXPECT_EQ(editDistance("", "abc"), 3U);
  EXPECT_EQ(editDistance("kitten", "sitting"), 3U);
  EXPECT_EQ(editDistance("flaw", "lawn"), 2U);
  EXPECT_EQ(editDistance("serve", "srve"), 1U);
}

TEST(NearestTest, TheFirstOfTheNearestIsTaken) {
  const auto to = [](std::string_view wanted) {
    return [wanted](std::string_view candidate) { return editDistance(wanted, candidate); };
  };
  const std::array<std::string_view, 3> names = {"serve", "config", "version"};
  EXPECT_EQ(nearest(names, to("srve")), "serve");
  EXPECT_EQ(nearest(names, to("verson")), "version");
  EXPECT_EQ(nearest(std::vector<std::string_view>(), to("x")), "");
}

}  // namespace
}  // namespace nimbus
