#include "deployment/deployments.h"

#include "base/log.h"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

namespace nimbus::deployment {
namespace {

namespace fs = std::filesystem;

// Calls that may wait for one session where nobody says less.
constexpr std::uint64_t kMostQueued = 1'000'000;

// How often it is looked for what others have changed, and when all have noticed.
constexpr Millis kLookForChanges{250};
constexpr Millis kNoticedAfter{700};
// How soon code is asked for again that could not be had.
constexpr Millis kTryAgain{5'000};

Task<> pause(Millis time) {
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor, time);
  co_await timer.async_wait(boost::asio::use_awaitable);
}

// Functions find the SDK as they find any package: in a folder above their own.
Result<> linkNodeSdk(const fs::path& directory, const fs::path& sdk) {
  std::error_code failed;
  const fs::path link = directory / "node_modules/nimbus-state";
  fs::create_directories(link.parent_path(), failed);
  if (failed) return Error(Code::Internal, directory.string() + ": " + failed.message());
  const fs::path target = sdk / "node/nimbus-state";
  if (fs::read_symlink(link, failed) == target) return {};
  fs::remove(link, failed);
  fs::create_directory_symlink(target, link, failed);
  if (failed && failed != std::errc::file_exists) {
    return Error(Code::Internal, link.string() + ": " + failed.message());
  }
  return {};
}

std::optional<Millis> unlessZero(Millis duration) {
  return duration == Millis::zero() ? std::nullopt : std::optional(duration);
}

}  // namespace

Deployments::Deployments(Parts parts, fs::path directory)
    : catalog_(parts.catalog),
      calls_(parts.calls),
      interpreters_(parts.interpreters),
      native_(parts.native),
      dependencies_(parts.dependencies),
      clock_(parts.clock),
      has_others_(std::move(parts.has_others)),
      directory_(std::move(directory)) {
  catalog_.subscribe([this](const FunctionId& id, const auto& now) { publish(id, now); });
}

fs::path Deployments::directoryOf(const function::Definition& definition) const {
  return directory_ / definition.id.text() / definition.code_hash;
}

Result<std::shared_ptr<session::FunctionSpec>> Deployments::specOf(
    const function::Definition& definition) const {
  const fs::path directory = directoryOf(definition);
  auto spec = std::make_shared<session::FunctionSpec>();
  const CodeOnHost code = {directory, dependencies_.of(directory)};
  const Residence residence = interpreters_.residenceOf(definition, code);
  NIMBUS_TRY(spec->launcher, interpreters_.launcherOf(definition, code));
  spec->id = definition.id.text();
  spec->version = static_cast<std::int64_t>(definition.version);
  spec->runtime = function::runtimeName(definition.runtime);
  spec->handler = definition.handler;
  spec->directory = residence.directory.string();
  spec->dependencies = residence.dependencies.string();
  spec->env.insert(definition.env.begin(), definition.env.end());
  spec->timeout = definition.timeout;
  spec->memory_mb = definition.memory_mb;
  spec->min_instances = definition.min_instances;
  spec->max_instances = definition.max_instances;
  spec->concurrency = definition.concurrency;
  spec->session_affinity = definition.state.session_affinity;
  spec->session_timeout = unlessZero(definition.state.session_timeout);
  spec->on_error = definition.state.on_error == function::OnError::Keep
                       ? session::OnError::Keep
                       : session::OnError::Rollback;
  // Whoever is to wait for room in the line waits as well in the line itself: how many can is
  // bounded by the connections that there may be.
  const bool waits_for_room = definition.queue.on_full == function::OnFull::Block;
  spec->max_waiting = waits_for_room ? 0
                                     : static_cast<std::uint32_t>(std::min<std::uint64_t>(
                                           definition.queue.max_per_session, kMostQueued));
  const std::uint64_t most = definition.queue.max_per_session;
  spec->max_queued =
      static_cast<std::uint32_t>(most == 0 ? kMostQueued : std::min(most, kMostQueued));
  spec->retry.max_attempts = definition.retry.max_attempts;
  spec->retry.initial = definition.retry.initial;
  spec->retry.factor = definition.retry.factor;
  spec->retry.max = definition.retry.max;
  spec->on_poison = definition.on_poison == function::OnPoison::Pause ? session::OnPoison::Pause
                                                                      : session::OnPoison::Park;
  spec->rules.enabled = definition.state.enabled;
  spec->rules.default_ttl = unlessZero(definition.state.default_ttl);
  spec->rules.max_value_bytes = definition.state.max_state_size;
  spec->rules.max_keys = definition.state.max_keys;
  spec->rules.max_total_bytes = definition.state.max_total_size;
  return spec;
}

void Deployments::publish(const FunctionId& id,
                          const std::shared_ptr<const function::Deployed>& now) {
  session::FunctionPtr spec;
  if (now) {
    Result<std::shared_ptr<session::FunctionSpec>> made = specOf(now->definition);
    if (!made) {
      log::error("a function cannot be called",
                 {{"function", id.text()}, {"error", made.error().message()}});
    } else {
      (*made)->metrics = calls_.functionMetrics().of(id.text());
      spec = *std::move(made);
    }
  } else {
    calls_.functionMetrics().remove(id.text());
  }
  const std::unique_lock lock(mutex_);
  if (spec) {
    specs_[id.text()] = std::move(spec);
  } else {
    specs_.erase(id.text());
  }
}

session::FunctionPtr Deployments::find(std::string_view id) const {
  thread_local std::string key;
  key = id;
  const std::shared_lock lock(mutex_);
  const auto found = specs_.find(key);
  return found != specs_.end() ? found->second : nullptr;
}

Task<Result<>> Deployments::fetchCode(std::shared_ptr<const function::Deployed> deployed) {
  const function::Definition& definition = deployed->definition;
  const fs::path directory = directoryOf(definition);
  std::error_code ignored;
  if (!fs::exists(directory, ignored)) {
    NIMBUS_CO_TRY(const function::Bundle code,
                  co_await catalog_.code(definition.id, definition.code_hash));
    NIMBUS_CO_CHECK(code.writeTo(directory));
  }
  co_return co_await makeReady(definition);
}

Task<Result<>> Deployments::makeReady(function::Definition definition) {
  fs::path directory = directoryOf(definition);
  if (definition.runtime == function::Runtime::Native) {
    co_return co_await native_.provide(std::move(definition), std::move(directory));
  }
  Dependencies::Progress progress = [this, id = definition.id.text()](std::string_view text) {
    calls_.logOf(id)->add(clock_.now(), "stderr", text, "");
  };
  co_return co_await dependencies_.provide(definition.runtime, std::move(directory),
                                           std::move(progress));
}

Task<Result<>> Deployments::start() {
  NIMBUS_CO_CHECK(linkNodeSdk(directory_, interpreters_.paths().sdk));
  NIMBUS_CO_CHECK(co_await catalog_.load());
  constexpr std::size_t kPage = 1000;
  std::string after;
  bool more = true;
  while (more) {
    const auto page = catalog_.list(kPage, after);
    for (const auto& deployed : page.items) {
      after = deployed->definition.id.text();
      if (const Result<> fetched = co_await fetchCode(deployed); !fetched) {
        log::error("the code of a function cannot be had",
                   {{"function", after}, {"error", fetched.error().message()}});
        continue;
      }
      publish(deployed->definition.id, deployed);
    }
    more = page.more;
  }
  co_await removeUnused();
  co_return Result<>();
}

Task<> Deployments::removeUnused() {
  if (!dependencies_.isSweepDue()) co_return;
  std::set<std::string> used;
  constexpr std::size_t kPage = 1000;
  std::string after;
  bool more = true;
  while (more) {
    const auto page = catalog_.list(kPage, after);
    for (const auto& deployed : page.items) {
      const FunctionId& id = deployed->definition.id;
      after = id.text();
      const auto versions =
          co_await catalog_.versions(id, function::Catalog::kVersionsWithCode, std::nullopt);
      if (!versions) co_return;  // another time: what is not known to be unused stays
      for (const function::VersionInfo& version : versions->items) {
        const fs::path code = directory_ / id.text() / version.code_hash;
        used.insert(dependencies_.of(code).filename().string());
      }
    }
    more = page.more;
  }
  co_await dependencies_.sweep(std::move(used));
}

Task<Result<>> Deployments::check(const function::Definition& definition,
                                  const function::Bundle& code) {
  function::Definition wanted = definition;
  wanted.code_hash = code.hash();
  NIMBUS_CO_CHECK(code.writeTo(directoryOf(wanted)));
  NIMBUS_CO_CHECK(co_await makeReady(wanted));
  NIMBUS_CO_TRY(std::shared_ptr<session::FunctionSpec> spec, specOf(wanted));
  Result<> loaded = co_await calls_.tryOut(std::move(spec));
  if (loaded) co_return loaded;
  const Code code_of_error = loaded.error().code();
  const bool is_its_fault =
      code_of_error == Code::FunctionCrashed || code_of_error == Code::Timeout;
  if (is_its_fault) co_return Error(Code::Unprocessable, loaded.error().message());
  co_return loaded;
}

Task<Result<function::Put>> Deployments::put(FunctionId id, std::string body) {
  NIMBUS_CO_TRY(function::Put done, co_await catalog_.put(std::move(id), std::move(body), *this));
  if (done.change != function::Put::Change::None) {
    co_await announce(done.definition.id);
    co_await removeUnused();
  }
  co_return done;
}

Task<Result<function::Definition>> Deployments::rollback(FunctionId id, std::uint64_t version) {
  NIMBUS_CO_TRY(function::Definition definition,
                co_await catalog_.rollback(std::move(id), version));
  // The code may have been fetched by no one yet; the listener has published without it.
  auto deployed = catalog_.find(definition.id.text());
  if (deployed) {
    NIMBUS_CO_CHECK(co_await fetchCode(deployed));
    publish(definition.id, deployed);
  }
  co_await announce(definition.id);
  co_return definition;
}

Task<Result<>> Deployments::remove(FunctionId id) {
  NIMBUS_CO_CHECK(co_await catalog_.remove(id));
  co_await announce(id);
  // Whoever does not know yet might make a session after all were removed.
  if (has_others_()) co_await pause(kNoticedAfter);
  NIMBUS_CO_CHECK(co_await calls_.removeAll(id.text()));
  std::error_code ignored;
  fs::remove_all(directory_ / id.text(), ignored);
  co_await removeUnused();
  co_return Result<>();
}

// ---- Other processes

Task<> Deployments::announce(FunctionId id) {
  // Also if there are no others yet: one may be starting.
  const Result<> told = co_await catalog_.announce(id);
  if (told) co_return;
  log::warn("other nodes are not told of a change",
            {{"function", id.text()}, {"error", told.error().message()}});
}

Task<Result<>> Deployments::takeOver(FunctionId id) {
  NIMBUS_CO_TRY(const auto deployed, co_await catalog_.stored(id));
  const auto known = catalog_.find(id.text());
  if (deployed && known && *deployed == *known) co_return Result<>();
  // Before it is published: it can be called from then on.
  if (deployed) NIMBUS_CO_CHECK(co_await fetchCode(deployed));
  NIMBUS_CO_CHECK(co_await catalog_.refresh(id));
  if (!deployed && known) NIMBUS_CO_CHECK(co_await calls_.retire(id.text()));
  co_return Result<>();
}

Task<> Deployments::follow() {
  function::Catalog::Announced seen;
  while (true) {
    co_await pause(kLookForChanges);
    if (!has_others_()) continue;
    const auto announced = co_await catalog_.announced();
    if (!announced) continue;  // the store is away, which others say
    bool all_well = true;
    for (const auto& [id, number] : *announced) {
      if (const auto before = seen.find(id); before != seen.end() && before->second == number) {
        continue;
      }
      const Result<> taken = co_await takeOver(id);
      if (taken) {
        seen[id] = number;
        continue;
      }
      all_well = false;
      log::error("a function that another node has changed cannot be had",
                 {{"function", id.text()}, {"error", taken.error().message()}});
    }
    if (!all_well) co_await pause(kTryAgain);
  }
}

}  // namespace nimbus::deployment
