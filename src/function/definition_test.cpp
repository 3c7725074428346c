#include "function/definition.h"

#include "function/deployed.h"

#include <boost/json.hpp>
#include <gmock/gmock.h>

#include <chrono>

namespace nimbus::function {
namespace {

namespace json = boost::json;

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

class DefinitionTest : public ::testing::Test {
 protected:
  // A function that says nothing but what it must.
  Definition created(std::string_view more = "") {
    std::string body = R"({"runtime":"python","files":{"main.py":""})";
    if (!more.empty()) body.append(",").append(more);
    body += "}";
    auto definition = update(std::nullopt, id_, body, defaults_);
    EXPECT_TRUE(definition) << definition.error().message();
    return *std::move(definition);
  }
  Definition updated(const Definition& current, std::string_view body) {
    auto definition = update(current, id_, body, defaults_);
    EXPECT_TRUE(definition) << definition.error().message();
    return *std::move(definition);
  }
  // What is said of a body that must be refused, and of which field.
  std::string refusal(std::string_view body) {
    auto definition = update(created(), id_, body, defaults_);
    EXPECT_FALSE(definition) << body;
    if (definition) return "(accepted)";
    EXPECT_EQ(definition.error().code(), Code::InvalidArgument);
    return definition.error().message();
  }
  std::string refusedNew(std::string_view body) {
    auto definition = update(std::nullopt, id_, body, defaults_);
    EXPECT_FALSE(definition) << body;
    return definition ? "(accepted)" : definition.error().message();
  }
  // Through the stored form, with the defaults of now.
  Definition reread(const Definition& definition) {
    Deployed deployed(definition);
    auto decoded = decode(id_, encode(deployed), defaults_);
    EXPECT_TRUE(decoded) << decoded.error().message();
    return decoded->definition;
  }

  const FunctionId id_ = *FunctionId::parse("cart");
  Defaults defaults_;
};

TEST_F(DefinitionTest, WhatIsNotSaidIsAsTheContractSays) {
  const Definition definition = created();
  EXPECT_EQ(definition.handler, "main.handle");
  EXPECT_EQ(definition.timeout, 30s);
  EXPECT_EQ(definition.memory_mb, 256U);
  EXPECT_EQ(definition.min_instances, 0U);
  EXPECT_EQ(definition.max_instances, 4U);
  EXPECT_EQ(definition.concurrency, 1U);
  EXPECT_EQ(definition.isolation, Isolation::Process);
  EXPECT_EQ(definition.retry.max_attempts, 3U);
  EXPECT_EQ(definition.retry.initial, 1s);
  EXPECT_EQ(definition.retry.factor, 2);
  EXPECT_EQ(definition.retry.max, 300s);
  EXPECT_EQ(definition.queue.max_per_session, 1'000U);
  EXPECT_EQ(definition.queue.on_full, OnFull::Reject);
  EXPECT_EQ(definition.on_poison, OnPoison::Park);
  EXPECT_TRUE(definition.state.enabled);
  EXPECT_EQ(definition.state.default_ttl, 3600s);
  EXPECT_EQ(definition.state.max_state_size, 65'536U);
  EXPECT_EQ(definition.state.max_keys, 100U);
  EXPECT_EQ(definition.state.max_total_size, 0U);
  EXPECT_TRUE(definition.state.session_affinity);
  EXPECT_EQ(definition.state.session_timeout, 3600s);
  EXPECT_EQ(definition.state.on_error, OnError::Rollback);
}

TEST_F(DefinitionTest, WhatIsSaidIsRead) {
  const Definition definition = created(R"(
      "handler":"app.run", "env":{"B":"2","A":"1"}, "timeout_ms":1, "memory_mb":0,
      "min_instances":2, "max_instances":2, "concurrency":1000, "isolation":"sandbox",
      "retry":{"max_attempts":1,"initial_ms":0,"factor":1.5,"max_ms":0},
      "queue":{"max_per_session":0,"on_full":"block"}, "on_poison":"pause",
      "state_config":{"enabled":false,"default_ttl":0.5,"max_state_size":1,"max_keys":0,
        "max_total_size":7,"session_affinity":false,"session_timeout":0,"on_error":"keep"})");
  EXPECT_EQ(definition.handler, "app.run");
  EXPECT_THAT(definition.env, ElementsAre(Pair("A", "1"), Pair("B", "2")));
  EXPECT_EQ(definition.timeout, 1ms);
  EXPECT_EQ(definition.memory_mb, 0U);
  EXPECT_EQ(definition.min_instances, 2U);
  EXPECT_EQ(definition.max_instances, 2U);
  EXPECT_EQ(definition.concurrency, 1'000U);
  EXPECT_EQ(definition.isolation, Isolation::Sandbox);
  EXPECT_EQ(definition.retry, (Retry{1, 0ms, 1.5, 0ms}));
  EXPECT_EQ(definition.queue, (Queue{0, OnFull::Block}));
  EXPECT_EQ(definition.on_poison, OnPoison::Pause);
  EXPECT_EQ(definition.state, (StateConfig{false, 500ms, 1, 0, 7, false, 0ms, OnError::Keep}));
}

TEST_F(DefinitionTest, DefaultsThatFollowTheRuntimeChangeWithIt) {
  Definition definition = created();
  EXPECT_EQ(definition.concurrency, 1U);
  definition = updated(definition, R"({"runtime":"node"})");
  EXPECT_EQ(definition.handler, "main.handle");
  EXPECT_EQ(definition.concurrency, 16U);
  definition = updated(definition, R"({"runtime":"native"})");
  EXPECT_EQ(definition.handler, "main.handle");
  EXPECT_EQ(definition.concurrency, 1U);
  definition = updated(definition, R"({"runtime":"exec"})");
  EXPECT_EQ(definition.handler, "main");
  EXPECT_EQ(definition.concurrency, 1U);
}

TEST_F(DefinitionTest, WhatWasSaidDoesNotFollowTheRuntime) {
  Definition definition = created(R"("handler":"app.run","concurrency":3)");
  definition = updated(definition, R"({"runtime":"exec"})");
  EXPECT_EQ(definition.handler, "app.run");
  EXPECT_EQ(definition.concurrency, 3U);
}

TEST_F(DefinitionTest, AFieldThatIsAbsentKeepsItsValue) {
  Definition definition = created(R"("timeout_ms":5000,"env":{"A":"1"},"retry":{"factor":3})");
  definition = updated(definition, R"({"memory_mb":512})");
  EXPECT_EQ(definition.timeout, 5s);
  EXPECT_EQ(definition.memory_mb, 512U);
  EXPECT_EQ(definition.retry.factor, 3);
  EXPECT_THAT(definition.env, ElementsAre(Pair("A", "1")));
}

TEST_F(DefinitionTest, AnObjectThatIsGivenReplacesTheWholeOne) {
  Definition definition = created(R"("env":{"A":"1"},"retry":{"factor":3,"max_attempts":9},
      "queue":{"max_per_session":5}, "state_config":{"max_keys":5,"default_ttl":60})");
  definition = updated(definition, R"({"env":{"B":"2"},"retry":{"max_attempts":4},
      "queue":{}, "state_config":{"default_ttl":0}})");
  EXPECT_THAT(definition.env, ElementsAre(Pair("B", "2")));
  EXPECT_EQ(definition.retry, (Retry{.max_attempts = 4}));
  EXPECT_EQ(definition.queue, Queue());
  EXPECT_EQ(definition.state, (StateConfig{.default_ttl = 0ms}));
}

TEST_F(DefinitionTest, TheServersDefaultsFillWhatAFunctionDoesNotSay) {
  defaults_.state.default_ttl = 10s;
  defaults_.state.max_keys = 7;
  const Definition definition = created(R"("state_config":{"max_keys":0})");
  EXPECT_EQ(definition.state.default_ttl, 10s);
  EXPECT_EQ(definition.state.max_keys, 0U) << "an explicit 0 is an answer";
}

TEST_F(DefinitionTest, ServerDefaultsThatChangeApplyToWhatWasNeverSaid) {
  const Definition silent = created();
  const Definition outspoken = created(R"("state_config":{"default_ttl":3600})");
  defaults_.state.default_ttl = 10s;
  defaults_.state.session_affinity = false;
  EXPECT_EQ(reread(silent).state.default_ttl, 10s);
  EXPECT_FALSE(reread(silent).state.session_affinity);
  EXPECT_EQ(reread(outspoken).state.default_ttl, 3600s);
  EXPECT_FALSE(reread(outspoken).state.session_affinity);
}

TEST_F(DefinitionTest, TheStoredFormKeepsEverything) {
  Definition definition = created(R"(
      "handler":"app.run", "env":{"A":"\"\u0001é"}, "timeout_ms":7, "memory_mb":0,
      "min_instances":2, "max_instances":3, "concurrency":5, "isolation":"sandbox",
      "retry":{"factor":1.1}, "queue":{"on_full":"block"}, "on_poison":"pause",
      "state_config":{"default_ttl":0.001,"session_timeout":1e9,"on_error":"keep"})");
  definition.version = 3;
  definition.code_hash = "abc";
  definition.created_at = Timestamp(1ms);
  definition.updated_at = Timestamp(2ms);
  EXPECT_EQ(reread(definition), definition);
  EXPECT_EQ(reread(created()), created());
}

TEST_F(DefinitionTest, AStoredFormThatIsDamagedIsNotTakenForAFunction) {
  const std::string whole = encode(Deployed(created()));
  ASSERT_TRUE(decode(id_, whole, defaults_));
  const std::string cut = whole.substr(0, whole.size() / 2);
  for (const std::string& text : {std::string(), cut, std::string("{}")}) {
    const auto decoded = decode(id_, text, defaults_);
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error().code(), Code::Internal);
    EXPECT_THAT(decoded.error().message(), HasSubstr("cart"));
  }
}

TEST_F(DefinitionTest, TheResourceShowsEverythingResolved) {
  Definition definition = created(R"("env":{"A":"é"},"state_config":{"default_ttl":0.5})");
  definition.version = 3;
  definition.code_hash = "abc";
  definition.created_at = Timestamp(Millis(1'769'850'487'006));
  definition.updated_at = Timestamp(Millis(1'769'850'488'000));
  const json::value expected = json::parse(R"({
    "id": "cart", "version": 3, "runtime": "python", "handler": "main.handle",
    "env": {"A": "é"}, "timeout_ms": 30000, "memory_mb": 256, "min_instances": 0,
    "max_instances": 4, "concurrency": 1, "isolation": "process",
    "network": false,
    "retry": {"max_attempts": 3, "initial_ms": 1000, "factor": 2, "max_ms": 300000},
    "queue": {"max_per_session": 1000, "on_full": "reject"}, "on_poison": "park",
    "state_config": {"enabled": true, "default_ttl": 0.5, "max_state_size": 65536,
      "max_keys": 100, "max_total_size": 0, "session_affinity": true, "session_timeout": 3600,
      "on_error": "rollback"},
    "code_hash": "abc",
    "created_at": "2026-01-31T09:08:07.006Z", "updated_at": "2026-01-31T09:08:08.000Z"})");
  EXPECT_EQ(json::parse(toJson(definition)), expected) << toJson(definition);
}

TEST_F(DefinitionTest, ANewFunctionNeedsARuntimeAndCode) {
  EXPECT_THAT(refusedNew(R"({"files":{"a":""}})"), HasSubstr("runtime is missing"));
  EXPECT_THAT(refusedNew(R"({"runtime":"python"})"), HasSubstr("needs code"));
  EXPECT_THAT(refusedNew(R"({"runtime":"python","files":{},"archive_base64":""})"),
              HasSubstr("give one"));
  EXPECT_TRUE(update(std::nullopt, id_, R"({"runtime":"exec","archive_base64":""})", defaults_));
}

TEST_F(DefinitionTest, WhatIsNoJsonObjectIsRefused) {
  const auto no_json = update(std::nullopt, id_, "{", defaults_);
  ASSERT_FALSE(no_json);
  EXPECT_EQ(no_json.error().code(), Code::InvalidJson);
  EXPECT_THAT(refusal("[]"), HasSubstr("JSON object"));
  EXPECT_THAT(refusal("null"), HasSubstr("JSON object"));
}

TEST_F(DefinitionTest, AnUnknownFieldIsNamedWithTheOneThatWasMeant) {
  EXPECT_THAT(refusal(R"({"timout_ms":1})"),
              AllOf(HasSubstr("timout_ms"), HasSubstr("did you mean timeout_ms")));
  EXPECT_THAT(refusal(R"({"fils":{}})"), HasSubstr("did you mean files"));
  EXPECT_THAT(refusal(R"({"retry":{"attempts":1}})"),
              AllOf(HasSubstr("retry.attempts"), HasSubstr("did you mean retry.max_attempts")));
  EXPECT_THAT(refusal(R"({"queue":{"full":1}})"), HasSubstr("queue.on_full"));
  EXPECT_THAT(refusal(R"({"state_config":{"defaultTtl":1}})"),
              HasSubstr("state_config.default_ttl"));
  const auto error = update(created(), id_, R"({"state_config":{"ttl":1}})", defaults_).error();
  ASSERT_EQ(error.fields().size(), 1U);
  EXPECT_EQ(error.fields()[0].name, "field");
  EXPECT_EQ(std::get<std::string>(error.fields()[0].value), "state_config.ttl");
}

TEST_F(DefinitionTest, AnUnknownNameThatIsVeryLongCostsNothing) {
  const std::string name(1'000'000, 'x');
  const std::string message = refusal("{\"" + name + "\":1}");
  EXPECT_LT(message.size(), 300U);
  EXPECT_THAT(message, Not(HasSubstr("did you mean")));
}

TEST_F(DefinitionTest, WhatTheServerSaysCannotBeSaid) {
  for (const std::string name : {"id", "version", "code_hash", "created_at", "updated_at"}) {
    EXPECT_THAT(refusal("{\"" + name + "\":\"x\"}"),
                AllOf(HasSubstr(name), HasSubstr("leave it out")));
  }
}

TEST_F(DefinitionTest, ANullIsRefusedByName) {
  for (const std::string name : {"runtime", "handler", "files", "archive_base64", "env",
                                 "timeout_ms", "isolation", "retry", "queue", "state_config"}) {
    EXPECT_THAT(refusal("{\"" + name + "\":null}"), HasSubstr(name + " must not be null"));
  }
  EXPECT_THAT(refusal(R"({"retry":{"factor":null}})"), HasSubstr("retry.factor must not be null"));
}

TEST_F(DefinitionTest, AFieldThatIsGivenTwiceIsRefused) {
  EXPECT_THAT(refusal(R"({"memory_mb":1,"memory_mb":2})"), HasSubstr("memory_mb is given twice"));
  EXPECT_THAT(refusal(R"({"retry":{"factor":1,"factor":2}})"), HasSubstr("retry.factor"));
  EXPECT_THAT(refusal(R"({"env":{"A":"1","A":"2"}})"), HasSubstr("env.A is given twice"));
}

TEST_F(DefinitionTest, AValueOfAnotherKindOrOutOfRangeIsRefusedByName) {
  const std::map<std::string, std::vector<std::string>> wrong = {
      {"runtime", {R"("ruby")", "1"}},
      {"handler", {"1", R"("")", R"("nodot")", R"(".x")", R"("x.")", R"("a\u0000.b")"}},
      {"env", {"1", "[]"}},
      {"timeout_ms", {"0", "86400001", "-1", "1.5", R"("1")", "true", "1e3"}},
      {"memory_mb", {"1048577", "-1"}},
      {"min_instances", {"1001", "-1"}},
      {"max_instances", {"0", "1001"}},
      {"concurrency", {"0", "1001"}},
      {"isolation", {R"("vm")"}},
      {"retry", {"1", "[]"}},
      {"queue", {"1"}},
      {"on_poison", {R"("stop")"}},
      {"state_config", {"true"}},
  };
  for (const auto& [name, values] : wrong) {
    for (const std::string& value : values) {
      EXPECT_THAT(refusal("{\"" + name + "\":" + value + "}"), HasSubstr(name)) << value;
    }
  }
  const std::map<std::string, std::map<std::string, std::vector<std::string>>> nested = {
      {"retry",
       {{"max_attempts", {"0", "1001"}},
        {"initial_ms", {"-1", "86400001"}},
        {"factor", {"0.5", "101", R"("2")"}},
        {"max_ms", {"-1", "86400001"}}}},
      {"queue", {{"max_per_session", {"-1", "1000001"}}, {"on_full", {R"("drop")"}}}},
      {"state_config",
       {{"enabled", {"1"}},
        {"default_ttl", {"-1", "0.0001", "1e12", R"("1")"}},
        {"max_state_size", {"-1", "1.5"}},
        {"max_keys", {"-1"}},
        {"max_total_size", {"-1"}},
        {"session_affinity", {"0"}},
        {"session_timeout", {"-0.5"}},
        {"on_error", {R"("ignore")"}}}},
  };
  for (const auto& [object, fields] : nested) {
    for (const auto& [name, values] : fields) {
      for (const std::string& value : values) {
        EXPECT_THAT(refusal("{\"" + object + "\":{\"" + name + "\":" + value + "}}"),
                    HasSubstr(object + "." + name))
            << value;
      }
    }
  }
}

TEST_F(DefinitionTest, FieldsMustFitEachOther) {
  EXPECT_THAT(refusal(R"({"min_instances":5})"), HasSubstr("max_instances is 4"));
  EXPECT_THAT(refusal(R"({"retry":{"initial_ms":400000}})"), HasSubstr("retry.max_ms"));
  EXPECT_EQ(updated(created(), R"({"min_instances":5,"max_instances":5})").min_instances, 5U);
}

TEST_F(DefinitionTest, TheHandlerOfAProgramIsAFileOfTheCode) {
  const auto handler = [&](std::string_view name) {
    return update(created(), id_,
                  "{\"runtime\":\"exec\",\"handler\":\"" + std::string(name) + "\"}", defaults_);
  };
  EXPECT_TRUE(handler("bin/run.sh"));
  EXPECT_FALSE(handler("../../bin/sh"));
  EXPECT_FALSE(handler("/bin/sh"));
}

TEST_F(DefinitionTest, VariablesOfTheEnvironmentHaveNamesAndValuesAProcessCanHave) {
  EXPECT_THAT(refusal(R"({"env":{"":"x"}})"), HasSubstr("env."));
  EXPECT_THAT(refusal(R"({"env":{"1A":"x"}})"), HasSubstr("env.1A"));
  EXPECT_THAT(refusal(R"({"env":{"A-B":"x"}})"), HasSubstr("env.A-B"));
  EXPECT_THAT(refusal(R"({"env":{"A=B":"x"}})"), HasSubstr("env.A=B"));
  EXPECT_THAT(refusal(R"({"env":{"NIMBUS_X":"x"}})"), HasSubstr("env.NIMBUS_X"));
  EXPECT_THAT(refusal(R"({"env":{"A":"x\u0000y"}})"), HasSubstr("NUL"));
  EXPECT_THAT(refusal(R"({"env":{"A":1}})"), HasSubstr("env.A must be text"));
  EXPECT_THAT(refusal(R"({"env":{"A":null}})"), HasSubstr("env.A must be text"));
  EXPECT_THAT(refusal("{\"env\":{\"A\":\"" + std::string(70'000, 'x') + "\"}}"),
              HasSubstr("env must not have more than"));
  EXPECT_THAT(updated(created(), R"({"env":{"_a9":""}})").env, ElementsAre(Pair("_a9", "")));
}

TEST_F(DefinitionTest, AMicrovmIsNotBuilt) {
  const auto refused = update(created(), id_, R"({"isolation":"microvm"})", defaults_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::Unprocessable);
  EXPECT_THAT(refused.error().message(), HasSubstr("not built"));
}

TEST_F(DefinitionTest, TheServerSaysHowFunctionsAreIsolatedThatSayNothing) {
  const Definition before = created();
  defaults_.isolation = Isolation::Sandbox;
  EXPECT_EQ(created().isolation, Isolation::Sandbox);
  EXPECT_EQ(created(R"("isolation":"process")").isolation, Isolation::Process);
  EXPECT_EQ(reread(before).isolation, Isolation::Sandbox) << "it follows a changed default";
}

TEST_F(DefinitionTest, ASandboxThatIsNotPossibleIsRefusedWithTheReason) {
  defaults_.no_sandbox = "no namespaces";
  const auto refused = update(created(), id_, R"({"isolation":"sandbox"})", defaults_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::Unprocessable);
  EXPECT_THAT(refused.error().message(), HasSubstr("no namespaces"));
}

TEST_F(DefinitionTest, ASandboxHasANetworkWhereTheServerGivesOne) {
  const std::string body = R"({"isolation":"sandbox","network":true})";
  const auto refused = update(created(), id_, body, defaults_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::Unprocessable);
  EXPECT_THAT(refused.error().message(), HasSubstr("functions.network"));
  EXPECT_TRUE(updated(created(), R"({"network":true})").network) << "a process has one anyway";
  defaults_.may_use_network = true;
  EXPECT_TRUE(updated(created(), body).network);
}

TEST_F(DefinitionTest, AnEarlierVersionBringsWhatFollowsFromItsRuntime) {
  Definition definition = created(R"("handler":"app.run")");
  setRuntime(definition, Runtime::Node, "main.handle");
  EXPECT_EQ(definition.concurrency, 16U);
  EXPECT_FALSE(definition.given.contains("handler"));
  setRuntime(definition, Runtime::Exec, "bin/run");
  EXPECT_EQ(definition.handler, "bin/run");
  EXPECT_EQ(definition.concurrency, 1U);
  EXPECT_EQ(reread(definition), definition);
}

}  // namespace
}  // namespace nimbus::function
