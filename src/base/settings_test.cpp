#include "base/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace nimbus {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

enum class Colour { Red, Green };

struct Config {
  bool fast = true;
  int threads = 2;
  std::size_t body = 1024;
  Millis idle{60'000};
  Millis ttl{3'600'000};
  std::string listen = "127.0.0.1:1";
  std::string password;
  std::string url;
  Colour colour = Colour::Green;
  std::vector<std::string> hosts;
  bool wal_mode = true;
};

class SettingsTest : public ::testing::Test {
 protected:
  SettingsTest() {
    path_ = ::testing::TempDir() + "settings_test_" + std::to_string(::getpid()) + ".yaml";
    declare(settings_, config_);
  }
  ~SettingsTest() override { std::filesystem::remove(path_); }

  static void declare(Settings& settings, Config& config) {
    settings.add("server.fast", config.fast, "Be quick");
    settings.add("server.threads", config.threads, Settings::Range{0, 64}, "How many | threads");
    settings.add("server.body", config.body, Settings::ByteRange{16, 1UL << 30U}, "Body limit");
    settings.add("server.idle_ms", config.idle, {Millis(1), Millis(100'000)}, "Idle time");
    settings.add("server.ttl", config.ttl, {Millis(0), Millis(10'000'000)}, "Time to live");
    settings.add("server.listen", config.listen, "Where to listen");
    settings.add("store.password", config.password, "The password").secret();
    settings.add("store.url", config.url, "The address");
    settings.add("store.colour", config.colour, {{"red", Colour::Red}, {"green", Colour::Green}},
                 "Its colour");
    settings.add("store.sqlite.hosts", config.hosts, "The hosts");
    settings.add("store.sqlite.walMode", config.wal_mode, "Write-ahead log");
  }

  std::vector<std::string> load(Settings::Sources sources) {
    std::vector<std::string> out;
    for (const auto& problem : settings_.load(sources)) out.push_back(problem.text());
    return out;
  }
  std::vector<std::string> loadFile(std::string_view text) {
    std::ofstream(path_) << text;
    return load({.file = path_, .environment = {}, .assignments = {}});
  }
  std::vector<std::string> loadVariable(std::string name, std::string value) {
    return load(
        {.file = {}, .environment = {{std::move(name), std::move(value)}}, .assignments = {}});
  }
  std::vector<std::string> loadAssignment(std::string name, std::string value) {
    return load(
        {.file = {}, .environment = {}, .assignments = {{name, std::move(value), "--set"}}});
  }

  std::string path_;
  Config config_;
  Settings settings_;
};

TEST_F(SettingsTest, WithoutSourcesTheDefaultsHold) {
  EXPECT_THAT(load({}), IsEmpty());
  EXPECT_EQ(config_.threads, 2);
  EXPECT_EQ(settings_.origin("server.threads"), "");
}

TEST_F(SettingsTest, AFileSetsEveryType) {
  EXPECT_THAT(loadFile("server:\n"
                       "  fast: no\n"
                       "  threads: 8\n"
                       "  body: 2MiB\n"
                       "  idle_ms: 1500\n"
                       "  ttl: 0.25\n"
                       "  listen: 0.0.0.0:80\n"
                       "store:\n"
                       "  colour: red\n"
                       "  sqlite:\n"
                       "    hosts: [\"a,1\", b]\n"
                       "    walMode: false\n"),
              IsEmpty());
  EXPECT_FALSE(config_.fast);
  EXPECT_EQ(config_.threads, 8);
  EXPECT_EQ(config_.body, 2U << 20U);
  EXPECT_EQ(config_.idle, Millis(1500));
  EXPECT_EQ(config_.ttl, Millis(250));
  EXPECT_EQ(config_.listen, "0.0.0.0:80");
  EXPECT_EQ(config_.colour, Colour::Red);
  EXPECT_THAT(config_.hosts, ElementsAre("a,1", "b"));
  EXPECT_FALSE(config_.wal_mode);
  EXPECT_EQ(settings_.origin("server.threads"), path_ + ":3");
}

TEST_F(SettingsTest, LaterSourcesWin) {
  std::ofstream(path_) << "server:\n  threads: 3\n  listen: file\n  fast: false\n";
  EXPECT_THAT(load({.file = path_,
                    .environment = {{"NIMBUS_SERVER__THREADS", "4"},
                                    {"NIMBUS_SERVER__LISTEN", "environment"}},
                    .assignments = {{"server.threads", "5", "--set server.threads"},
                                    {"server.threads", "6", "--set server.threads"}}}),
              IsEmpty());
  EXPECT_EQ(config_.threads, 6);
  EXPECT_EQ(config_.listen, "environment");
  EXPECT_FALSE(config_.fast);
  EXPECT_EQ(settings_.origin("server.threads"), "--set server.threads");
  EXPECT_EQ(settings_.origin("server.listen"), "NIMBUS_SERVER__LISTEN");
}

TEST_F(SettingsTest, VariablesMatchWhateverTheirCase) {
  EXPECT_THAT(loadVariable("NIMBUS_STORE__SQLITE__WALMODE", "false"), IsEmpty());
  EXPECT_FALSE(config_.wal_mode);
  EXPECT_THAT(loadVariable("NIMBUS_store__sqlite__walMode", "true"), IsEmpty());
  EXPECT_TRUE(config_.wal_mode);
}

TEST_F(SettingsTest, VariablesWithoutTwoUnderscoresAreNone) {
  EXPECT_THAT(loadVariable("NIMBUS_URL", "x"), IsEmpty());
  EXPECT_THAT(loadVariable("NIMBUSSERVER__X", "x"), IsEmpty());
  EXPECT_THAT(loadVariable("PATH", "x"), IsEmpty());
}

TEST_F(SettingsTest, AnUnknownVariableNamesTheNearest) {
  EXPECT_THAT(loadVariable("NIMBUS_SERVER__LISTN", "x"),
              ElementsAre(AllOf(HasSubstr("NIMBUS_SERVER__LISTN:"),
                                HasSubstr("did you mean NIMBUS_SERVER__LISTEN?"))));
}

TEST_F(SettingsTest, AnUnknownKeyNamesFileLineAndTheNearest) {
  EXPECT_THAT(loadFile("server:\n  threads: 1\n  tread: 2\n"),
              ElementsAre(AllOf(HasSubstr(path_ + ":3:"), HasSubstr("\"server.tread\""),
                                HasSubstr("did you mean server.threads?"))));
}

TEST_F(SettingsTest, AnUnknownSectionIsOneProblem) {
  EXPECT_THAT(loadFile("servr:\n  threads: 1\n  listen: x\n"),
              ElementsAre(AllOf(HasSubstr(path_ + ":1:"), HasSubstr("did you mean server?"))));
}

TEST_F(SettingsTest, ARightNameInAWrongSectionFindsItsPlace) {
  EXPECT_THAT(loadFile("listen: x\n"), ElementsAre(HasSubstr("did you mean server.listen?")));
  EXPECT_THAT(loadAssignment("store.listen", "x"),
              ElementsAre(HasSubstr("did you mean server.listen?")));
}

TEST_F(SettingsTest, KeysInFilesAreCaseSensitive) {
  EXPECT_THAT(loadFile("store:\n  sqlite:\n    walmode: true\n"),
              ElementsAre(HasSubstr("did you mean store.sqlite.walMode?")));
}

TEST_F(SettingsTest, EveryMistakeIsReported) {
  EXPECT_THAT(
      loadFile("server:\n  fast: maybe\n  threads: many\n  body: 1\n  idle_ms: 0.5\n  ttl: -1\n"
               "store:\n  colour: blue\n  zzz: 1\n"),
      ElementsAre(AllOf(HasSubstr(":2:"), HasSubstr("true or false"), HasSubstr("\"maybe\"")),
                  AllOf(HasSubstr(":3:"), HasSubstr("from 0 to 64"), HasSubstr("\"many\"")),
                  AllOf(HasSubstr(":4:"), HasSubstr("16 to 1073741824 bytes")),
                  AllOf(HasSubstr(":5:"), HasSubstr("1 to 100000 milliseconds")),
                  AllOf(HasSubstr(":6:"), HasSubstr("0 to 10000 seconds")),
                  AllOf(HasSubstr(":8:"), HasSubstr("red or green"), HasSubstr("\"blue\"")),
                  HasSubstr(":9:")));
}

TEST_F(SettingsTest, NumbersAtTheirLimitsAndBeyond) {
  EXPECT_THAT(loadAssignment("server.threads", "0"), IsEmpty());
  EXPECT_THAT(loadAssignment("server.threads", "64"), IsEmpty());
  EXPECT_THAT(loadAssignment("server.body", "1GiB"), IsEmpty());
  for (const char* value : {"-1", "65", "", " 1", "1 ", "0x10", "1e3", "99999999999999999999"}) {
    EXPECT_THAT(loadAssignment("server.threads", value), SizeIs(1)) << value;
  }
  for (const char* value : {"15", "2GiB", "-1", "17179869184GiB", "1kb", "MiB", "1.5MiB"}) {
    EXPECT_THAT(loadAssignment("server.body", value), SizeIs(1)) << value;
  }
  for (const char* value : {"nan", "inf", "1e300", "ten", "10s", ""}) {
    EXPECT_THAT(loadAssignment("server.ttl", value), SizeIs(1)) << value;
  }
}

TEST_F(SettingsTest, ListsFromTextAreSplitAtCommas) {
  EXPECT_THAT(loadVariable("NIMBUS_STORE__SQLITE__HOSTS", "a:1,b:2"), IsEmpty());
  EXPECT_THAT(config_.hosts, ElementsAre("a:1", "b:2"));
  EXPECT_THAT(loadAssignment("store.sqlite.hosts", ""), IsEmpty());
  EXPECT_THAT(config_.hosts, IsEmpty());
}

TEST_F(SettingsTest, FilesOfTheWrongShapeAreRefused) {
  EXPECT_THAT(loadFile("- a\n- b\n"), ElementsAre(HasSubstr("must be a mapping")));
}

TEST_F(SettingsTest, ValuesOfTheWrongShapeAreRefused) {
  EXPECT_THAT(loadFile("server:\n  listen: [a]\n  threads:\n    x: 1\n  fast:\nstore: 7\n"),
              ElementsAre(HasSubstr("takes one value"), HasSubstr("not a section"),
                          HasSubstr("has no value"), HasSubstr("store is a section")));
}

TEST_F(SettingsTest, RepeatedKeysAreRefused) {
  EXPECT_THAT(loadFile("server:\n  threads: 1\n  threads: 2\nserver:\n  fast: true\n"),
              ElementsAre(AllOf(HasSubstr(":3:"), HasSubstr("server.threads is there twice")),
                          AllOf(HasSubstr(":4:"), HasSubstr("server is there twice"))));
}

TEST_F(SettingsTest, EmptyFilesAndEmptySectionsAreFine) {
  EXPECT_THAT(loadFile(""), IsEmpty());
  EXPECT_THAT(loadFile("server:\n# nothing\n"), IsEmpty());
}

TEST_F(SettingsTest, SyntaxErrorsNameTheLine) {
  EXPECT_THAT(loadFile("server:\n  listen: [x\nb: 1\n"), ElementsAre(HasSubstr(path_ + ":")));
}

TEST_F(SettingsTest, AFileThatCannotBeReadIsNamed) {
  EXPECT_THAT(load({.file = "/no/such/file.yaml", .environment = {}, .assignments = {}}),
              ElementsAre(AllOf(HasSubstr("/no/such/file.yaml"), HasSubstr("No such file"))));
  EXPECT_THAT(load({.file = "/", .environment = {}, .assignments = {}}), SizeIs(1));
}

TEST_F(SettingsTest, ShowSaysWhatHoldsAndWhereItIsFrom) {
  EXPECT_THAT(loadFile("server:\n  threads: 8\n"), IsEmpty());
  EXPECT_THAT(
      settings_.show(),
      AllOf(HasSubstr("server:\n  fast: true  # default\n  threads: 8  # " + path_ + ":2\n"),
            HasSubstr("  ttl: 3600  # default\n"),
            HasSubstr("  sqlite:\n    hosts: []  # default\n    walMode: true")));
}

TEST_F(SettingsTest, ShowCanBeLoadedAgain) {
  EXPECT_THAT(loadFile("server: {threads: 8, ttl: 1.5, idle_ms: 7, listen: \"a # \\\"b\\\"\"}\n"
                       "store: {colour: red, sqlite: {hosts: [x, \"y,z\"]}}\n"),
              IsEmpty());
  Config again;
  Settings settings;
  declare(settings, again);
  std::ofstream(path_) << settings_.show();
  EXPECT_THAT(settings.load({.file = path_, .environment = {}, .assignments = {}}), IsEmpty());
  EXPECT_EQ(again.threads, 8);
  EXPECT_EQ(again.ttl, Millis(1500));
  EXPECT_EQ(again.idle, Millis(7));
  EXPECT_EQ(again.listen, "a # \"b\"");
  EXPECT_EQ(again.colour, Colour::Red);
  EXPECT_THAT(again.hosts, ElementsAre("x", "y,z"));
}

TEST_F(SettingsTest, SecretsAreNeverShown) {
  EXPECT_THAT(loadFile("store:\n  password: hunter2\n  url: redis://joe:hunter2@host:1/0\n"),
              IsEmpty());
  EXPECT_EQ(config_.password, "hunter2");
  EXPECT_THAT(settings_.show(),
              AllOf(Not(HasSubstr("hunter2")), HasSubstr("password: \"********\""),
                    HasSubstr("redis://joe:********@host:1/0")));
  EXPECT_THAT(settings_.reference(), Not(HasSubstr("hunter2")));
}

TEST_F(SettingsTest, APasswordInAUrlIsHiddenWhateverItHolds) {
  for (const char* url : {"redis://joe:hun/ter2@host:1", "redis://joe:hun@ter2@host:1",
                          "redis://joe:hun:ter2@host:1", "redis://:hun/@ter2@host:1"}) {
    ASSERT_THAT(loadAssignment("store.url", url), IsEmpty());
    EXPECT_THAT(settings_.show(), AllOf(Not(HasSubstr("hun")), Not(HasSubstr("ter2")),
                                        HasSubstr(":********@host:1\"")))
        << url;
  }
  for (const char* url : {"redis://host:1/0", "redis://joe@host:1/0", "redis://host", "a:b@c"}) {
    ASSERT_THAT(loadAssignment("store.url", url), IsEmpty());
    EXPECT_THAT(settings_.show(), HasSubstr(url));
  }
}

TEST_F(SettingsTest, ASecretInAFileEveryoneReadsIsWarnedOf) {
  EXPECT_THAT(loadFile("store:\n  password: x\n"), IsEmpty());
  ASSERT_THAT(settings_.warnings(), SizeIs(1));
  EXPECT_THAT(settings_.warnings()[0].text(), HasSubstr("chmod 600"));
}

TEST_F(SettingsTest, ASecretInAPrivateFileIsNot) {
  std::ofstream(path_) << "";
  ASSERT_EQ(::chmod(path_.c_str(), 0600), 0);
  EXPECT_THAT(loadFile("store:\n  password: x\n"), IsEmpty());
  EXPECT_THAT(settings_.warnings(), IsEmpty());
}

TEST_F(SettingsTest, TheReferenceListsEverySettingWithItsDefault) {
  EXPECT_THAT(settings_.reference(),
              AllOf(HasSubstr("### server\n"), HasSubstr("### store.sqlite\n"),
                    HasSubstr("| `server.threads` | `2` | 0 to 64 | How many \\| threads |\n"),
                    HasSubstr("| `store.password` | `\"\"` | text | The password *Secret.* |\n")));
}

TEST_F(SettingsTest, NoNameCanForgeALineOfOutput) {
  EXPECT_THAT(loadFile("server:\n  \"a\\nb\\e[31m\": 1\n"),
              ElementsAre(AllOf(Not(HasSubstr("\n")), Not(HasSubstr("\x1b")))));
}

}  // namespace
}  // namespace nimbus
