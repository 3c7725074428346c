#include "function/pack.h"

#include "function/upload.h"

#include <gtest/gtest.h>

#include <string>

namespace nimbus::function {
namespace {

TEST(PackTest, WhatIsPackedComesBackAsItWas) {
  Bundle bundle;
  ASSERT_TRUE(bundle.add("main.py", "def handle(event): return 1\n", Bundle::Mode::Plain));
  ASSERT_TRUE(
      bundle.add("data/picture.bin", std::string("\x00\xff\x80\n", 4), Bundle::Mode::Plain));
  ASSERT_TRUE(bundle.add("bin/tool", "text", Bundle::Mode::Executable));
  ASSERT_TRUE(bundle.add("wörter/naïve.txt", "", Bundle::Mode::Plain));
  const std::string deep = std::string(120, 'a') + "/" + std::string(120, 'b');
  ASSERT_TRUE(bundle.add(deep, "far down", Bundle::Mode::Plain));

  const Result<std::string> packed = packBase64(bundle);
  ASSERT_TRUE(packed) << packed.error().message();
  const auto read = readCode(R"({"archive_base64":")" + *packed + R"("})");
  ASSERT_TRUE(read) << read.error().message();
  ASSERT_TRUE(read->has_value());
  EXPECT_EQ(**read, bundle);
  EXPECT_EQ((*read)->hash(), bundle.hash());
}

}  // namespace
}  // namespace nimbus::function
