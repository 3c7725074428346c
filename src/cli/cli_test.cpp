#include "cli/cli.h"

#include "cli/backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace nimbus::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// Has the settings the options of `serve` stand for, and remembers how it was called.
class FakeBackend final : public Backend {
 public:
  FakeBackend() {
    settings_.add("server.listen", listen, "Where");
    settings_.add("server.data", data, "Data");
    settings_.add("gateway.store.backend", backend, "Backend");
    settings_.add("gateway.store.redis.url", url, "Address");
    settings_.add("gateway.store.redis.cluster", cluster, "Cluster");
  }

  Settings& settings() override { return settings_; }
  Settings::Problems crossCheck() const override {
    if (listen == "wrong") return {{"--listen", "is wrong"}};
    return {};
  }
  Place place() const override { return {listen, data, url}; }
  Result<std::string> folderBody(const std::filesystem::path& /*folder*/) const override {
    return std::string("{}");
  }
  Result<> checkServe(const ServeOptions& options) const override {
    if (!options.authenticate && listen == "everyone") return Error(Code::Forbidden, "not that");
    return {};
  }
  Result<> serve(const ServeOptions& options, Output output) override {
    served = options;
    if (fail_with) return Error(Code::Unavailable, *fail_with);
    output.out << "ready\n";
    return {};
  }

  std::string listen = "default";
  std::string data = "default";
  std::string backend = "sqlite";
  std::string url;
  bool cluster = false;
  std::optional<ServeOptions> served;
  std::optional<std::string> fail_with;

 private:
  Settings settings_;
};

class CliTest : public ::testing::Test {
 protected:
  int run(std::vector<std::string> arguments) {
    out_.str("");
    err_.str("");
    const Surroundings around{out_, err_, environment_, terminal_};
    return cli::run(arguments, backend_, around);
  }
  std::string out() const { return out_.str(); }
  std::string err() const { return err_.str(); }

  FakeBackend backend_;
  std::vector<std::pair<std::string, std::string>> environment_;
  bool terminal_ = false;

 private:
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(CliTest, VersionIsOneLineOnStandardOutput) {
  EXPECT_EQ(run({"version"}), 0);
  EXPECT_THAT(out(), StartsWith("nimbus "));
  EXPECT_THAT(err(), IsEmpty());
  EXPECT_EQ(run({"--version"}), 0);
  EXPECT_THAT(out(), StartsWith("nimbus "));
}

TEST_F(CliTest, HelpListsCommandsAndExamples) {
  EXPECT_EQ(run({"--help"}), 0);
  EXPECT_THAT(out(), AllOf(HasSubstr("serve"), HasSubstr("config"), HasSubstr("version")));
  EXPECT_EQ(run({"serve", "--help"}), 0);
  EXPECT_THAT(out(), AllOf(HasSubstr("--listen HOST:PORT"), HasSubstr("Examples:"),
                           HasSubstr("nimbus serve --listen 127.0.0.1:0")));
  EXPECT_EQ(run({"config", "--help"}), 0);
  EXPECT_THAT(out(), AllOf(HasSubstr("check"), HasSubstr("show"), Not(HasSubstr("reference"))));
  EXPECT_FALSE(backend_.served);
}

TEST_F(CliTest, NoCommandIsAMistake) {
  EXPECT_EQ(run({}), 2);
  EXPECT_THAT(err(), HasSubstr("nimbus --help"));
  EXPECT_EQ(run({"config"}), 2);
  EXPECT_THAT(err(), HasSubstr("nimbus config --help"));
}

TEST_F(CliTest, AnUnknownCommandNamesTheNearest) {
  EXPECT_EQ(run({"srve"}), 2);
  EXPECT_THAT(err(), AllOf(HasSubstr("\"srve\""), HasSubstr("did you mean serve?")));
  EXPECT_THAT(out(), IsEmpty());
  EXPECT_EQ(run({"config", "shwo"}), 2);
  EXPECT_THAT(err(), AllOf(HasSubstr("did you mean show?"), HasSubstr("nimbus config --help")));
}

TEST_F(CliTest, AnUnknownCommandLikeNoneListsThemAll) {
  for (const char* word : {"nonsense", "x", "", "verification"}) {
    EXPECT_EQ(run({word}), 2);
    EXPECT_THAT(err(), AllOf(Not(HasSubstr("did you mean")), HasSubstr("there are "),
                             HasSubstr("serve"), HasSubstr("version")))
        << word;
  }
  EXPECT_EQ(run({"config", "remove"}), 2);
  EXPECT_THAT(err(), HasSubstr("there are check, show\n"));
}

TEST_F(CliTest, AGroupMayDoSomethingItself) {
  EXPECT_EQ(run({"sessions"}), 2);
  EXPECT_THAT(err(), AllOf(HasSubstr("FUNCTION is required"), HasSubstr("nimbus sessions --help")));
  // Port 1 of this machine: nobody is there, so it was understood.
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"sessions", "counter", "--server", "127.0.0.1:1"},
        {"sessions", "show", "counter", "alice", "--server", "127.0.0.1:1"},
        {"sessions", "--server", "127.0.0.1:1", "show", "counter", "alice"},
        {"functions", "--server", "127.0.0.1:1"}}) {
    EXPECT_EQ(run(words), 1);
    EXPECT_THAT(err(), AllOf(HasSubstr("127.0.0.1:1"), HasSubstr("is it running?")));
  }
  EXPECT_EQ(run({"sessions", "show", "counter", "--server", "127.0.0.1:1"}), 2);
}

TEST_F(CliTest, TheServerIsThatOfTheOptionThenOfTheVariable) {
  environment_ = {{"NIMBUS_URL", "127.0.0.1:2"}};
  EXPECT_EQ(run({"functions"}), 1);
  EXPECT_THAT(err(), HasSubstr("127.0.0.1:2"));
  EXPECT_EQ(run({"functions", "--server", "127.0.0.1:1"}), 1);
  EXPECT_THAT(err(), HasSubstr("127.0.0.1:1"));
}

TEST_F(CliTest, UnknownOptionsAndMissingValuesAreMistakes) {
  EXPECT_EQ(run({"serve", "--lisen", "x"}), 2);
  EXPECT_THAT(err(), AllOf(HasSubstr("--lisen"), HasSubstr("nimbus serve --help")));
  EXPECT_EQ(run({"serve", "--listen"}), 2);
  EXPECT_EQ(run({"serve", "extra"}), 2);
  EXPECT_EQ(run({"serve", "--listen", "a", "--listen", "b"}), 2);
  EXPECT_FALSE(backend_.served);
}

TEST_F(CliTest, StrangeArgumentsDoNoHarm) {
  EXPECT_EQ(run({"\x1b[31m\n"}), 2);
  EXPECT_THAT(err(), Not(HasSubstr("\x1b")));
  EXPECT_EQ(run({""}), 2);
  EXPECT_EQ(run({"--"}), 2);
  EXPECT_EQ(run({"serve", "--", "x"}), 2);
  EXPECT_EQ(run({"\xff\xfe"}), 2);
  EXPECT_EQ(run({std::string(1'000'000, 'x')}), 2);
  EXPECT_EQ(run(std::vector<std::string>(10'000, "serve")), 2);
}

TEST_F(CliTest, ServeTurnsOptionsIntoSettings) {
  EXPECT_EQ(run({"serve", "--listen", "here", "--data=there", "--no-auth"}), 0);
  EXPECT_EQ(backend_.listen, "here");
  EXPECT_EQ(backend_.data, "there");
  ASSERT_TRUE(backend_.served);
  EXPECT_FALSE(backend_.served->authenticate);
  EXPECT_FALSE(backend_.served->functions);
  EXPECT_EQ(out(), "ready\n");
}

TEST_F(CliTest, OptionsWinOverSetWhichWinsOverTheEnvironment) {
  environment_ = {{"NIMBUS_SERVER__LISTEN", "environment"}, {"NIMBUS_SERVER__DATA", "environment"}};
  EXPECT_EQ(run({"serve", "--listen", "option", "--set", "server.listen=set", "--set",
                 "server.data=a=b"}),
            0);
  EXPECT_EQ(backend_.listen, "option");
  EXPECT_EQ(backend_.data, "a=b");
  EXPECT_TRUE(backend_.served->authenticate);
}

TEST_F(CliTest, StoreNamesABackendAndItsAddress) {
  EXPECT_EQ(run({"serve", "--store", "redis+cluster://a:1,b:2"}), 0);
  EXPECT_EQ(backend_.backend, "redis");
  EXPECT_EQ(backend_.url, "redis+cluster://a:1,b:2");
  EXPECT_TRUE(backend_.cluster);
  EXPECT_EQ(run({"serve", "--store", "redis://a:1/2"}), 0);
  EXPECT_FALSE(backend_.cluster);
  EXPECT_EQ(run({"serve", "--store", "sqlite"}), 0);
  EXPECT_EQ(backend_.backend, "sqlite");
  EXPECT_EQ(run({"serve", "--store", "mongo://x"}), 2);
}

TEST_F(CliTest, ServeRefusesWhatTheBackendDoesNotAllow) {
  EXPECT_EQ(run({"serve", "--listen", "everyone", "--no-auth"}), 2);
  EXPECT_THAT(err(), HasSubstr("not that"));
  EXPECT_FALSE(backend_.served);
}

TEST_F(CliTest, AFailureIsSaidAndIsNoUsageError) {
  backend_.fail_with = "the port is taken";
  EXPECT_EQ(run({"serve"}), 1);
  EXPECT_EQ(err(), "error: the port is taken\n");
}

TEST_F(CliTest, MistakesInSettingsSayWhereAndWhatElse) {
  EXPECT_EQ(run({"serve", "--set", "server.listn=x"}), 2);
  EXPECT_THAT(err(), HasSubstr("did you mean server.listen?"));
  EXPECT_EQ(run({"serve", "--set", "novalue"}), 2);
  EXPECT_EQ(run({"serve", "--listen", "wrong"}), 2);
  EXPECT_EQ(run({"serve", "--config", "/no/such/file"}), 1);
  EXPECT_THAT(err(), HasSubstr("/no/such/file"));
  environment_ = {{"NIMBUS_SERVER__LISTN", "x"}};
  EXPECT_EQ(run({"config", "check"}), 1);
  EXPECT_FALSE(backend_.served);
}

TEST_F(CliTest, ConfigShowAndCheck) {
  EXPECT_EQ(run({"config", "show", "--set", "server.listen=x"}), 0);
  EXPECT_THAT(out(), HasSubstr("listen: \"x\"  # --set server.listen\n"));
  EXPECT_EQ(run({"config", "check"}), 0);
  EXPECT_THAT(err(), IsEmpty());
}

TEST_F(CliTest, ColourOnlyOnATerminalThatWantsIt) {
  EXPECT_EQ(run({"nonsense"}), 2);
  EXPECT_THAT(err(), Not(HasSubstr("\x1b")));
  terminal_ = true;
  EXPECT_EQ(run({"nonsense"}), 2);
  EXPECT_THAT(err(), HasSubstr("\x1b["));
  environment_ = {{"NO_COLOR", "1"}};
  EXPECT_EQ(run({"nonsense"}), 2);
  EXPECT_THAT(err(), Not(HasSubstr("\x1b")));
  environment_ = {{"TERM", "dumb"}};
  EXPECT_EQ(run({"nonsense"}), 2);
  EXPECT_THAT(err(), Not(HasSubstr("\x1b")));
}

TEST_F(CliTest, OutputThatCannotBeWrittenIsAFailure) {
  std::ostringstream broken;
  broken.setstate(std::ios::badbit);
  std::ostringstream err;
  const std::vector<std::string> arguments = {"version"};
  EXPECT_EQ(cli::run(arguments, backend_, {broken, err, {}, false}), 1);
}

}  // namespace
}  // namespace nimbus::cli
