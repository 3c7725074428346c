#pragma once
// Functions as they can be called: their code on this machine's disk, and what the call path needs
// to know of them. Between the catalog, which knows what is deployed, and the call path, which
// knows neither files nor definitions.

#include "base/clock.h"
#include "base/result.h"
#include "base/task.h"
#include "deployment/dependencies.h"
#include "deployment/interpreters.h"
#include "deployment/native_build.h"
#include "function/catalog.h"
#include "session/calls.h"

#include <filesystem>
#include <functional>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace nimbus::deployment {

// Any thread may use any member.
class Deployments final : public function::CodeCheck {
 public:
  // What a function is made of and runs on. All must outlive this.
  struct Parts {
    function::Catalog& catalog;
    session::Calls& calls;
    Interpreters& interpreters;
    NativeBuild& native;
    Dependencies& dependencies;
    const Clock& clock;
    // Whether other processes have the same functions.
    std::function<bool()> has_others = [] { return false; };
  };

  // `directory` is for code.
  Deployments(Parts parts, std::filesystem::path directory);

  // Makes what is deployed callable. Before the first call.
  Task<Result<>> start();

  // Null if there is none. On the path of every call.
  session::FunctionPtr find(std::string_view id) const;

  Task<Result<function::Put>> put(FunctionId id, std::string body);
  Task<Result<function::Definition>> rollback(FunctionId id, std::uint64_t version);
  // Its sessions and their state too.
  Task<Result<>> remove(FunctionId id);

  // Makes what other processes have changed so here, several times a second, until it is cancelled.
  // Beside start().
  Task<> follow();

  // function::CodeCheck
  Task<Result<>> check(const function::Definition& definition,
                       const function::Bundle& code) override;

 private:
  std::filesystem::path directoryOf(const function::Definition& definition) const;
  // Has its code on disk, and what must be made of it before it can be called.
  Task<Result<>> fetchCode(std::shared_ptr<const function::Deployed> deployed);
  Task<Result<>> makeReady(function::Definition definition);
  // Tells others, who know it a moment after this has returned.
  Task<> announce(FunctionId id);
  Task<Result<>> takeOver(FunctionId id);
  // Has dependencies removed that no version needs any more, now and then.
  Task<> removeUnused();
  Result<std::shared_ptr<session::FunctionSpec>> specOf(
      const function::Definition& definition) const;
  void publish(const FunctionId& id, const std::shared_ptr<const function::Deployed>& now);

  function::Catalog& catalog_;
  session::Calls& calls_;
  Interpreters& interpreters_;
  NativeBuild& native_;
  Dependencies& dependencies_;
  const Clock& clock_;
  const std::function<bool()> has_others_;
  const std::filesystem::path directory_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::string, session::FunctionPtr> specs_;
};

}  // namespace nimbus::deployment
