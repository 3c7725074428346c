// Directories: lists over many partitions.

#include "suites.h"

namespace nimbus::store::conformance {
namespace {

TEST_P(DirectoryTest, ListsComeInTheOrderOfTheKeysBytes) {
  commit(list("d", "b"), list("d", "a\xff"), list("d", "B"), list("d", "a"), list("d", "\xc3\xa9"),
         list("d", "aa"));
  std::vector<std::string> keys;
  for (const DirectoryEntry& entry : directory("d").items) keys.push_back(entry.key);
  EXPECT_THAT(keys, ElementsAre("B", "a", "aa", "a\xff", "b", "\xc3\xa9"));
}

TEST_P(DirectoryTest, ADirectoryThatNeverWasIsEmpty) {
  EXPECT_TRUE(directory("d").items.empty());
  EXPECT_FALSE(directory("d").more);
}

TEST_P(DirectoryTest, AListingReplacesAndRemoves) {
  commit(list("d", "k", "one"));
  commit(list("d", "k", "two"), list("d", "other", ""));
  EXPECT_THAT(listed("d"), ElementsAre("k=two", "other="));
  commit(unlist("d", "k"));
  EXPECT_THAT(listed("d"), ElementsAre("other="));
  commit(unlist("d", "never there"), unlist("never", "there"));
}

TEST_P(DirectoryTest, EveryPartitionWritesToTheSameDirectory) {
  Client other = clientOf(Partition("session", {"cart", "bob"}));
  commit(put("s", "k"), list("d", "alice"));
  other.commit(put("s", "k"), list("d", "bob"));
  EXPECT_THAT(listed("d"), ElementsAre("alice=value", "bob=value"));
  other.commit(unlist("d", "alice"));
  EXPECT_THAT(listed("d"), ElementsAre("bob=value"));
}

TEST_P(DirectoryTest, DirectoriesStandOnTheirOwn) {
  commit(list("d", "k", "1"), list("d2", "k", "2"), list("D", "k", "3"), list("d:k", "k", "4"));
  EXPECT_THAT(listed("d"), ElementsAre("k=1"));
  EXPECT_THAT(listed("d2"), ElementsAre("k=2"));
  EXPECT_THAT(listed("D"), ElementsAre("k=3"));
  EXPECT_THAT(listed("d:k"), ElementsAre("k=4"));
}

TEST_P(DirectoryTest, APrefixNarrowsAndAPositionGoesOn) {
  for (const char* key : {"a", "ab", "abc", "abd", "ac", "b"}) commit(list("d", key, ""));
  const auto keys = [&](std::string after, std::string prefix) {
    std::vector<std::string> found;
    for (const DirectoryEntry& entry : directory("d", after, prefix).items) {
      found.push_back(entry.key);
    }
    return found;
  };
  EXPECT_THAT(keys("", "ab"), ElementsAre("ab", "abc", "abd"));
  EXPECT_THAT(keys("ab", "ab"), ElementsAre("abc", "abd"));
  EXPECT_THAT(keys("abc", ""), ElementsAre("abd", "ac", "b"));
  EXPECT_THAT(keys("abcc", "ab"), ElementsAre("abd")) << "the position need not be there";
  EXPECT_THAT(keys("a", "ab"), ElementsAre("ab", "abc", "abd"));
  EXPECT_THAT(keys("b", "ab"), IsEmpty());
  EXPECT_THAT(keys("", "x"), IsEmpty());
  EXPECT_THAT(keys("b", ""), IsEmpty());
}

TEST_P(DirectoryTest, APrefixIsBytesAndNotAPattern) {
  for (const char* key : {"a%b", "axb", "a_b", "a*", "ab", "\xff", "\xff\xff", "\xfe"}) {
    commit(list("d", key, ""));
  }
  const auto count = [&](std::string prefix) { return directory("d", "", prefix).items.size(); };
  EXPECT_EQ(count("a%"), 1U);
  EXPECT_EQ(count("a_"), 1U);
  EXPECT_EQ(count("a*"), 1U);
  EXPECT_EQ(count("A"), 0U);
  EXPECT_EQ(count("\xff"), 2U);
  EXPECT_EQ(count("\xff\xff"), 1U);
}

TEST_P(DirectoryTest, MoreIsExactAtTheBorderOfAPage) {
  commit(list("d", "a"), list("d", "b"), list("d", "ba"), list("d", "c"));
  EXPECT_TRUE(directory("d", "", "", 3).more);
  EXPECT_FALSE(directory("d", "", "", 4).more);
  EXPECT_FALSE(directory("d", "a", "", 3).more);
  EXPECT_FALSE(directory("d", "", "b", 2).more) << "keys without the prefix do not count";
  EXPECT_TRUE(directory("d", "", "b", 1).more);
}

TEST_P(DirectoryTest, PagesCoverTheDirectoryOnce) {
  for (int i = 0; i < 25; ++i) commit(list("d", "k" + std::to_string(i), std::to_string(i)));
  for (const std::size_t limit : {1U, 4U, 24U, 25U}) {
    std::vector<std::string> paged;
    for (std::string after; paged.size() < kEnough;) {
      const DirectoryPage page = directory("d", after, "", limit);
      for (const DirectoryEntry& entry : page.items) paged.push_back(entry.key + "=" + entry.value);
      if (!page.more) break;
      after = page.items.back().key;
    }
    EXPECT_EQ(paged, listed("d"));
  }
}

TEST_P(DirectoryTest, ALimitMustBeWithinBounds) {
  EXPECT_EQ(tryDirectory("d", "", "", 0).error().code(), Code::InvalidArgument);
  EXPECT_EQ(tryDirectory("d", "", "", kMaxPage + 1).error().code(), Code::InvalidArgument);
  EXPECT_TRUE(tryDirectory("d", "", "", kMaxPage));
}

// An entry may stay although its batch was refused; it may not go.
TEST_P(DirectoryTest, ARefusedBatchRemovesNoEntry) {
  commit(list("d", "k"));
  refused(expecting(put("s", "k"), 9), unlist("d", "k"));
  EXPECT_THAT(listed("d"), ElementsAre("k=value"));
}

TEST_P(DirectoryTest, AMalformedBatchListsNothing) {
  refused(put("s", ""), list("d", "k"));
  EXPECT_THAT(listed("d"), IsEmpty());
}

TEST_P(DirectoryTest, ABatchMayOnlyList) {
  EXPECT_TRUE(commit(list("d", "k")).results.empty());
  EXPECT_THAT(listed("d"), ElementsAre("k=value"));
}

TEST_P(DirectoryTest, ValuesAreBytes) {
  const std::string value("\0\xff\n", 3);
  commit(list("d", "k", value));
  EXPECT_EQ(directory("d").items.at(0).value, value);
}

TEST_P(DirectoryTest, OutlivesTheStore) {
  commit(list("d", "a"), list("d", "b"));
  commit(unlist("d", "a"));
  if (!reopen()) return;
  EXPECT_THAT(listed("d"), ElementsAre("b=value"));
}

}  // namespace
}  // namespace nimbus::store::conformance
