#include "cli/exposition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nimbus::cli {
namespace {

TEST(ExpositionTest, ReadsNamesLabelsAndValues) {
  const auto samples = readExposition(
      "# HELP a What.\n# TYPE a counter\na 1\nb{f=\"x\",g=\"a\\\"b,}\"} 2.5\n\nnonsense\nc{d\n");
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[0].name, "a");
  EXPECT_EQ(samples[0].value, 1);
  EXPECT_EQ(samples[1].labels.at("f"), "x");
  EXPECT_EQ(samples[1].labels.at("g"), "a\"b,}");
  EXPECT_EQ(samples[1].value, 2.5);
}

}  // namespace
}  // namespace nimbus::cli
