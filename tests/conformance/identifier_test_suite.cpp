// Identifiers are bytes: in every position each name is its own, and none has a meaning.

#include "suites.h"

#include <algorithm>
#include <set>

namespace nimbus::store::conformance {
namespace {

// Names that meet where somebody joins, globs, escapes, folds, normalises or cuts them.
std::vector<std::string> oddNames() {
  const std::string nul(1, '\0');
  const std::string longest(kMaxNameBytes, 'x');
  std::vector<std::string> names = {"a",
                                    "A",
                                    "b",
                                    "ab",
                                    "a:b",
                                    "a:",
                                    ":a",
                                    ":",
                                    "::",
                                    "a%3Ab",
                                    "%3A",
                                    "%",
                                    "%25",
                                    "%00",
                                    "{",
                                    "}",
                                    "{a}",
                                    "{a}b",
                                    "a{b}",
                                    "*",
                                    "a*",
                                    "?",
                                    "[a]",
                                    "[",
                                    "]",
                                    "/",
                                    "a/b",
                                    "//",
                                    "..",
                                    ".",
                                    "\\",
                                    "\\x00",
                                    "\\0",
                                    "'",
                                    "''",
                                    "\"",
                                    "`",
                                    "a'b",
                                    "'; DROP TABLE record; --",
                                    " ",
                                    "  ",
                                    "a b",
                                    " a",
                                    "a ",
                                    "\t",
                                    "\n",
                                    "\r\n",
                                    "_",
                                    "-",
                                    "0",
                                    "00",
                                    "-1",
                                    "1e3",
                                    "null",
                                    "NULL",
                                    "true",
                                    "$",
                                    "$1",
                                    "?1",
                                    "@",
                                    "#",
                                    "&",
                                    "|",
                                    ",",
                                    ";",
                                    "=",
                                    "~",
                                    "^",
                                    "<",
                                    ">",
                                    "(",
                                    ")",
                                    "!",
                                    "+",
                                    "\xc3\xa9" /* NFC */,
                                    "e\xcc\x81" /* NFD */,
                                    "\xc3\x89",
                                    "e",
                                    "\xe6\x97\xa5\xe6\x9c\xac",
                                    "\xf0\x9f\xa7\x80",
                                    "\xc3\x9f",
                                    "ss",
                                    "\xe2\x80\x8b",
                                    "\xef\xbb\xbf" /* BOM */,
                                    "\xff",
                                    "\xfe",
                                    "\xff\xff",
                                    "\x80",
                                    "\xc3",
                                    "\xc0\x80",
                                    "\x7f",
                                    "\x01",
                                    "\x1f",
                                    nul,
                                    nul + nul,
                                    "a" + nul,
                                    nul + "a",
                                    "a" + nul + "b",
                                    nul + nul + nul,
                                    longest,
                                    longest.substr(1),
                                    longest.substr(1) + "y",
                                    "y" + longest.substr(1),
                                    longest.substr(0, kMaxNameBytes - 2) + "\xc3\xa9"};
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  return names;
}

// Writes under every name first, and then looks whether each still has its own.
template <typename Write, typename Read>
void expectApart(Write write, Read read) {
  const std::vector<std::string> names = oddNames();
  for (std::size_t i = 0; i < names.size(); ++i) write(names[i], std::to_string(i));
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(read(names[i]), std::to_string(i)) << text(names[i]);
  }
}

TEST_P(IdentifierTest, Keys) {
  expectApart([&](auto name, auto value) { commit(expecting(put("s", name, value), 0)); },
              [&](auto name) { return value("s", name); });
  std::vector<std::string> names = oddNames();
  std::sort(names.begin(), names.end());
  EXPECT_EQ(keys({.space = "s", .after = {}, .prefix = {}, .limit = 1000}), names);
}

TEST_P(IdentifierTest, KeysAreErasedOneByOne) {
  std::vector<std::string> names = oddNames();
  for (const std::string& name : names) commit(put("s", name));
  std::size_t left = names.size();
  for (const std::string& name : names) {
    EXPECT_EQ(removed(erase("s", name)), 1U) << text(name);
    EXPECT_EQ(usage("s").records, --left);
  }
}

TEST_P(IdentifierTest, KeysPageByPage) {
  std::vector<std::string> names = oddNames();
  for (const std::string& name : names) commit(put("s", name));
  std::sort(names.begin(), names.end());
  std::vector<std::string> paged;
  query::ScanRecords query{.space = "s", .after = {}, .prefix = {}, .limit = 1};
  for (bool more = true; more && paged.size() < kEnough;) {
    const auto page = ask<RecordPage>(query);
    ASSERT_FALSE(page.items.empty());
    paged.push_back(page.items.at(0).key);
    query.after = paged.back();
    more = page.more;
  }
  EXPECT_EQ(paged, names);
}

TEST_P(IdentifierTest, PrefixesOfKeys) {
  const std::vector<std::string> names = oddNames();
  for (const std::string& name : names) commit(put("s", name));
  for (const std::string& prefix : names) {
    std::vector<std::string> expected;
    for (const std::string& name : names) {
      if (name.starts_with(prefix)) expected.push_back(name);
    }
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(keys({.space = "s", .after = {}, .prefix = prefix, .limit = 1000}), expected)
        << text(prefix);
  }
}

TEST_P(IdentifierTest, Spaces) {
  expectApart([&](auto name, auto value) { commit(expecting(put(name, "k", value), 0)); },
              [&](auto name) { return value(name, "k"); });
  for (const std::string& name : oddNames()) EXPECT_EQ(removed(eraseSpace(name)), 1U) << text(name);
}

TEST_P(IdentifierTest, SpacesAndKeysDoNotRunTogether) {
  commit(put("a", "b:c", "1"), put("a:b", "c", "2"), put("a", "bc", "3"), put("ab", "c", "4"));
  const std::string nul(1, '\0');
  commit(put("a" + nul, "b", "5"), put("a", nul + "b", "6"), put("a", "b", "7"));
  EXPECT_EQ(value("a", "b:c"), "1");
  EXPECT_EQ(value("a:b", "c"), "2");
  EXPECT_EQ(value("a", "bc"), "3");
  EXPECT_EQ(value("ab", "c"), "4");
  EXPECT_EQ(value("a" + nul, "b"), "5");
  EXPECT_EQ(value("a", nul + "b"), "6");
  EXPECT_EQ(value("a", "b"), "7");
}

TEST_P(IdentifierTest, Logs) {
  expectApart(
      [&](auto name, auto value) { EXPECT_EQ(appended(append(name, "e", {}, value)).seq, 1U); },
      [&](auto name) { return entry(name, "e")->value; });
}

TEST_P(IdentifierTest, EntryIds) {
  expectApart(
      [&](auto name, auto value) { EXPECT_FALSE(appended(append("l", name, {}, value)).repeated); },
      [&](auto name) { return entry("l", name)->value; });
  for (const std::string& name : oddNames())
    EXPECT_EQ(removed(remove("l", name)), 1U) << text(name);
}

TEST_P(IdentifierTest, Indexes) {
  expectApart(
      [&](auto name, auto value) {
        commit(append("l", value, {{name, "t"}}, value));
      },
      [&](auto name) {
        const query::ScanIndex query{
            .log = "l", .index = name, .first = "t", .last = "t", .after = {}};
        const auto page = ask<IndexPage>(query);
        return page.items.size() == 1 ? page.items[0].entry.value : "not one";
      });
}

TEST_P(IdentifierTest, Terms) {
  expectApart(
      [&](auto name, auto value) {
        commit(append("l", value, {{"i", name}}, value));
      },
      [&](auto name) {
        const query::ScanIndex query{
            .log = "l", .index = "i", .first = name, .last = name, .after = {}};
        const auto page = ask<IndexPage>(query);
        return page.items.size() == 1 ? page.items[0].entry.value : "not one";
      });
  for (const std::string& name : oddNames()) {
    EXPECT_EQ(removed(removeTerm("l", "i", name)), 1U) << text(name);
  }
}

TEST_P(IdentifierTest, TermsPageByPage) {
  std::vector<std::string> names = oddNames();
  for (const std::string& name : names) commit(append("l", name, {{"i", name}}));
  std::sort(names.begin(), names.end());
  for (const Order order : {Order::Ascending, Order::Descending}) {
    query::ScanIndex query{.log = "l",
                           .index = "i",
                           .first = {},
                           .last = std::string(kMaxNameBytes, '\xff'),
                           .after = {},
                           .order = order,
                           .limit = 1};
    std::vector<std::string> paged;
    for (bool more = true; more && paged.size() < kEnough;) {
      const auto page = ask<IndexPage>(query);
      ASSERT_FALSE(page.items.empty());
      paged.push_back(page.items.at(0).term);
      query.after = {page.items[0].term, page.items[0].entry.seq};
      more = page.more;
    }
    EXPECT_EQ(paged, names);
    std::reverse(names.begin(), names.end());
  }
}

TEST_P(IdentifierTest, Leases) {
  expectApart(
      [&](auto name, auto value) { EXPECT_EQ(granted(acquire(name, value)).token.epoch, 1U); },
      [&](auto name) { return lease(name)->holder; });
  for (const std::string& name : oddNames()) {
    commitWith(Fence{name, lease(name)->token}, put("s", "k"));
    commit(release(name, lease(name)->token));
  }
}

TEST_P(IdentifierTest, Holders) {
  for (const std::string& name : oddNames()) {
    const Token token = granted(acquire("owner", name)).token;
    EXPECT_EQ(lease("owner")->holder, name) << text(name);
    EXPECT_EQ(refused(acquire("owner", "me")), "conflict holder=" + text(name) + " operation=0");
    commit(release("owner", token));
  }
}

TEST_P(IdentifierTest, Queues) {
  expectApart(
      [&](auto name, auto value) { EXPECT_EQ(queued(push(name, "i", value)).position, 1U); },
      [&](auto name) { return item(name, "i")->payload; });
  for (const std::string& name : oddNames()) EXPECT_EQ(queueInfo(name), (QueueInfo{1, 0, 0}));
}

TEST_P(IdentifierTest, ItemIds) {
  expectApart([&](auto name, auto value) { EXPECT_FALSE(queued(push("q", name, value)).repeated); },
              [&](auto name) { return item("q", name)->payload; });
  for (const std::string& name : oddNames()) {
    commit(defer("q", name));
    commit(park("q", name));
    commit(revive("q", name));
    commit(complete("q", name));
  }
  EXPECT_EQ(queueInfo("q"), QueueInfo{});
}

TEST_P(IdentifierTest, Limiters) {
  for (const std::string& name : oddNames()) {
    EXPECT_EQ(taken(take(name, 1h, 1)).remaining, 0U) << text(name);
  }
  for (const std::string& name : oddNames()) {
    EXPECT_EQ(error(take(name, 1h, 1)).code(), Code::RateLimited) << text(name);
  }
}

TEST_P(IdentifierTest, Directories) {
  expectApart([&](auto name, auto value) { commit(list(name, "k", value)); },
              [&](auto name) {
                const DirectoryPage page = directory(name);
                return page.items.size() == 1 ? page.items[0].value : "not one";
              });
}

TEST_P(IdentifierTest, DirectoryKeys) {
  expectApart([&](auto name, auto value) { commit(list("d", name, value)); },
              [&](auto name) {
                const DirectoryPage page = directory("d", "", name, 1);
                return page.items.at(0).key == name ? page.items[0].value : "another";
              });
  std::vector<std::string> names = oddNames();
  std::sort(names.begin(), names.end());
  std::vector<std::string> paged;
  for (std::string after; paged.size() < kEnough;) {
    const DirectoryPage page = directory("d", after, "", 7);
    for (const DirectoryEntry& entry : page.items) paged.push_back(entry.key);
    if (!page.more) break;
    after = paged.back();
  }
  EXPECT_EQ(paged, names);
  for (const std::string& name : names) commit(unlist("d", name));
  EXPECT_THAT(listed("d"), IsEmpty());
}

TEST_P(IdentifierTest, PartsOfPartitions) {
  const auto partitions = [](const std::string& name) {
    return std::vector<Partition>{Partition("session", {name}), Partition("session", {"f", name}),
                                  Partition("session", {name, "s"}),
                                  Partition("flow", {name, name})};
  };
  expectApart(
      [&](auto name, auto value) {
        for (const Partition& partition : partitions(name)) {
          Client client = clientOf(partition);
          client.commit(expecting(put("s", "k", value), 0), append("l", "e"), push("q", "i"));
        }
      },
      [&](auto name) {
        std::set<std::string> values;
        for (const Partition& partition : partitions(name)) {
          values.insert(clientOf(partition).value("s", "k"));
        }
        return values.size() == 1 ? *values.begin() : "several";
      });
}

TEST_P(IdentifierTest, OutliveTheStore) {
  for (const std::string& name : oddNames()) {
    commit(put(name, name, name), append(name, name, {{name, name}}, name, name),
           acquire(name, name), push(name, name, name), list(name, name, name));
  }
  const std::string before = dump();
  if (!reopen()) return;
  EXPECT_TRUE(dump() == before);
}

TEST_P(IdentifierTest, NamesAreNeitherEmptyNorTooLong) {
  const std::string too_long(kMaxNameBytes + 1, 'x');
  for (const std::string& name : {std::string(), too_long}) {
    for (const Operation& operation : std::vector<Operation>{
             put(name, "k"), put("s", name), append(name, "e"), append("l", name), push(name, "i"),
             push("q", name), acquire(name, "me"), take(name, 1s, 1),
             append("l", "e", {{name, "t"}})}) {
      EXPECT_EQ(refused(operation), "invalid_argument operation=0") << operation.index();
    }
    EXPECT_EQ(refused(list(name, "k")), "invalid_argument");
    EXPECT_EQ(refused(list("d", name)), "invalid_argument");
  }
  EXPECT_EQ(refused(append("l", "e", {{"i", too_long}})), "invalid_argument operation=0");
}

TEST_P(IdentifierTest, WhatNobodyCanWriteIsReadAsAbsent) {
  const std::string too_long(kMaxNameBytes + 1, 'x');
  for (const std::string& name : {std::string(), too_long}) {
    EXPECT_FALSE(exists("s", name));
    EXPECT_FALSE(exists(name, "k"));
    EXPECT_FALSE(entry(name, name));
    EXPECT_FALSE(lease(name));
    EXPECT_FALSE(item(name, name));
    EXPECT_EQ(usage(name), Usage{});
    EXPECT_EQ(logInfo(name), LogInfo{});
    EXPECT_EQ(queueInfo(name), QueueInfo{});
  }
}

}  // namespace
}  // namespace nimbus::store::conformance
