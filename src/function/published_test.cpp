#include "function/published.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace nimbus::function {
namespace {

std::shared_ptr<const Published::Map> generation(std::uint64_t number) {
  auto map = std::make_shared<Published::Map>();
  for (const std::string name : {"a", "b"}) {
    Deployed deployed(Definition(*FunctionId::parse(name)));
    deployed.last_version = number;
    map->emplace(name, std::make_shared<const Deployed>(std::move(deployed)));
  }
  return map;
}

TEST(PublishedTest, FindsWhatIsThere) {
  Published published;
  EXPECT_EQ(published.find("a"), nullptr);
  EXPECT_TRUE(published.all()->empty());
  published.replace(generation(1));
  EXPECT_EQ(published.find("a")->definition.id.text(), "a");
  EXPECT_EQ(published.find("c"), nullptr);
  EXPECT_EQ(published.find(""), nullptr);
  EXPECT_EQ(published.all()->size(), 2U);
}

TEST(PublishedTest, WhatWasFoundStaysAsItWas) {
  Published published;
  published.replace(generation(1));
  const auto found = published.find("a");
  published.replace(generation(2));
  EXPECT_EQ(found->last_version, 1U);
  EXPECT_EQ(published.find("a")->last_version, 2U);
}

TEST(PublishedTest, EveryThreadSeesWhatWasReplacedAndNeverGoesBack) {
  constexpr std::uint64_t kGenerations = 300;
  Published published;
  published.replace(generation(0));
  std::atomic<std::uint64_t> newest = 0;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (std::uint64_t seen = 0; seen < kGenerations;) {
        const std::uint64_t at_least = newest.load();
        const std::uint64_t found = published.find("b")->last_version;
        if (found < at_least || found < seen) ++wrong;
        seen = found;
      }
    });
  }
  for (std::uint64_t i = 1; i <= kGenerations; ++i) {
    published.replace(generation(i));
    newest = i;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace nimbus::function
