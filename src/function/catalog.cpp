#include "function/catalog.h"

#include "base/one_shot.h"
#include "function/records.h"
#include "function/upload.h"

#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <type_traits>
#include <utility>

namespace nimbus::function {
namespace {

namespace asio = boost::asio;

// How often a change is tried that others overtake. Each time somebody else's was stored, so only
// constant deployment comes this far.
constexpr int kAttempts = 10;

// Where changes are announced, and for how long: other processes look several times a second.
constexpr const char* kChanges = "changes";
constexpr Millis kAnnouncedFor{3'600'000};

store::Partition changes() {
  return {"function-changes", {}};
}

Error noFunction(const FunctionId& id) {
  return {Code::NotFound, fmt::format("there is no function {}", id.text())};
}

Error overtaken(const FunctionId& id) {
  return {Code::Conflict, fmt::format("function {} is being changed by others", id.text())};
}

bool isOvertaken(const Error& error) {
  return error.code() == Code::VersionConflict;
}

// What a version consists of.
bool isSameVersion(const Definition& a, const Definition& b) {
  return a.code_hash == b.code_hash && a.runtime == b.runtime && a.handler == b.handler;
}

bool isKept(std::uint64_t version, std::uint64_t last_version) {
  return version + Catalog::kVersionsWithCode > last_version;
}

bool hasCode(const std::vector<VersionInfo>& versions, std::string_view code_hash) {
  return std::any_of(versions.begin(), versions.end(),
                     [&](const VersionInfo& version) { return version.code_hash == code_hash; });
}

}  // namespace

// Code in hand: as files, and as the store keeps it.
struct Catalog::Upload {
  Bundle bundle;
  std::string hash;
  std::vector<std::string> pieces;
};

struct Catalog::Worker {
  // Runs `work`, which owns what it uses, and resumes whoever waits where he was. Not by co_spawn:
  // that passes a cancellation on to the other thread, where it may find the work just gone.
  template <typename Work>
  Task<std::invoke_result_t<Work>> run(Work work) {
    auto answer = std::make_shared<OneShot<std::invoke_result_t<Work>>>();
    asio::post(thread, [answer, work = std::move(work)] { answer->set(guarded(work)); });
    return answer->wait(answer);
  }

  // What libraries throw ends here: there is nobody above to catch it.
  template <typename Work>
  static std::invoke_result_t<Work> guarded(const Work& work) {
    try {
      return work();
    } catch (const std::exception& thrown) {
      return Error(Code::Internal, fmt::format("reading code: {}", thrown.what()));
    }
  }

  asio::thread_pool thread{1};
};

Catalog::Catalog(store::Store& store, Random& random, Defaults defaults)
    : store_(store), random_(random), defaults_(defaults), worker_(std::make_unique<Worker>()) {}

Catalog::~Catalog() = default;

void Catalog::subscribe(Listener listener) {
  listeners_.push_back(std::move(listener));
}

// ---- what there is

Task<Result<>> Catalog::load() {
  const Turns::Turn turn = co_await changes_.take();
  NIMBUS_CO_TRY(const auto ids, co_await readIds(store_));
  auto map = std::make_shared<Published::Map>();
  for (const FunctionId& id : ids) {
    NIMBUS_CO_TRY(auto found, co_await readFunction(store_, id, defaults_));
    if (found) map->emplace(id.text(), known(*std::move(found)));
  }
  publish(map);
  co_return Result<>();
}

Task<Result<>> Catalog::refresh(FunctionId id) {
  const Turns::Turn turn = co_await changes_.take();
  co_return co_await reread(std::move(id));
}

Task<Result<>> Catalog::announce(FunctionId id) {
  store::op::Put put;
  put.space = kChanges;
  put.key = id.text();
  put.expiry.at = store_.now() + kAnnouncedFor;
  store::Batch batch;
  batch.operations.emplace_back(std::move(put));
  NIMBUS_CO_CHECK(co_await store_.commit(changes(), std::nullopt, std::move(batch)).done());
  co_return Result<>();
}

Task<Result<Catalog::Announced>> Catalog::announced() {
  Announced all;
  store::query::ScanRecords scan;
  scan.space = kChanges;
  scan.limit = store::kMaxPage;
  scan.values = store::Values::Omit;
  bool more = true;
  while (more) {
    NIMBUS_CO_TRY(const auto page, co_await store::ask<store::RecordPage>(store_, changes(), scan));
    for (const store::Record& record : page.items) {
      scan.after = record.key;
      NIMBUS_CO_TRY(const FunctionId id, FunctionId::parse(record.key));
      all.emplace(id, record.version);
    }
    more = page.more;
  }
  co_return all;
}

Task<Result<std::shared_ptr<const Deployed>>> Catalog::stored(FunctionId id) {
  NIMBUS_CO_TRY(auto found, co_await readFunction(store_, std::move(id), defaults_));
  if (!found) co_return std::shared_ptr<const Deployed>();
  co_return std::make_shared<const Deployed>(*std::move(found));
}

store::Page<std::shared_ptr<const Deployed>> Catalog::list(std::size_t limit,
                                                           std::string_view after) const {
  const auto all = published_.all();
  store::Page<std::shared_ptr<const Deployed>> page;
  for (const auto& [id, deployed] : *all) {
    if (id > after) page.items.push_back(deployed);
  }
  const auto by_id = [](const auto& a, const auto& b) {
    return a->definition.id < b->definition.id;
  };
  const std::size_t wanted = std::min(limit, page.items.size());
  std::partial_sort(page.items.begin(), page.items.begin() + static_cast<std::ptrdiff_t>(wanted),
                    page.items.end(), by_id);
  page.more = page.items.size() > limit;
  page.items.resize(wanted);
  return page;
}

Task<Result<store::Page<VersionInfo>>> Catalog::versions(FunctionId id, std::size_t limit,
                                                         std::optional<std::uint64_t> before) {
  NIMBUS_CO_TRY(const Deployed deployed, co_await readExisting(id));
  // Numbers have no gaps, so a page is a range.
  const std::uint64_t last =
      before ? std::min(std::max<std::uint64_t>(*before, 1) - 1, deployed.last_version)
             : deployed.last_version;
  const std::uint64_t first = last > limit ? last - limit + 1 : 1;
  store::Page<VersionInfo> page;
  NIMBUS_CO_TRY(page.items, co_await readVersions(store_, std::move(id), first, last));
  std::reverse(page.items.begin(), page.items.end());
  for (VersionInfo& version : page.items) {
    version.current = version.version == deployed.definition.version;
    version.code_available = isKept(version.version, deployed.last_version);
  }
  page.more = first > 1;
  co_return page;
}

Task<Result<Bundle>> Catalog::code(FunctionId id, std::string code_hash) {
  NIMBUS_CO_TRY(std::string encoded, co_await readEncodedCode(store_, id, code_hash));
  if (encoded.empty()) {
    co_return Error(Code::NotFound,
                    fmt::format("function {} has no code {}", id.text(), code_hash));
  }
  auto work = [encoded = std::move(encoded), code_hash]() -> Result<Bundle> {
    NIMBUS_TRY(Bundle bundle, Bundle::decode(encoded));
    if (bundle.hash() != code_hash) return Error(Code::Internal, "the stored code is damaged");
    return bundle;
  };
  auto bundle = co_await worker_->run(std::move(work));
  if (!bundle) {
    co_return std::move(bundle).error().in(fmt::format("reading code of function {}", id.text()));
  }
  co_return bundle;
}

// ---- changes

Task<Result<Put>> Catalog::put(FunctionId id, std::string body, CodeCheck& check) {
  const auto text = std::make_shared<const std::string>(std::move(body));
  std::shared_ptr<const Upload> upload;
  std::optional<Definition> accepted;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    NIMBUS_CO_TRY(const auto before, co_await readFunction(store_, id, defaults_));
    NIMBUS_CO_TRY(Definition wanted, co_await merge(before, id, text));
    if (attempt == 0) {
      NIMBUS_CO_TRY(upload, co_await readUpload(text));
    }
    if (upload) wanted.code_hash = upload->hash;
    if (before && wanted == before->definition) {
      co_return Put{std::move(wanted), Put::Change::None};
    }

    Deployed next = following(before, std::move(wanted));
    store::Batch batch = replacing(before, next);
    if (!before || next.last_version > before->last_version) {
      if (!accepted || !isSameVersion(*accepted, next.definition)) {
        NIMBUS_CO_CHECK(co_await accept(next.definition, upload, check));
        accepted = next.definition;
      }
      NIMBUS_CO_CHECK(co_await addNewVersion(batch, next.definition, upload));
    }
    const auto deployed = std::make_shared<Deployed>(std::move(next));
    auto stored = co_await commit(id, std::move(batch), deployed);
    if (stored) {
      co_return Put{deployed->definition, before ? Put::Change::Updated : Put::Change::Created};
    }
    if (!isOvertaken(stored.error())) co_return std::move(stored).error();
  }
  co_return overtaken(id);
}

Task<Result<Definition>> Catalog::rollback(FunctionId id, std::uint64_t version) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    NIMBUS_CO_TRY(const Deployed before, co_await readExisting(id));
    if (version == before.definition.version) co_return before.definition;
    if (version == 0 || version > before.last_version) {
      co_return Error(Code::NotFound,
                      fmt::format("function {} has no version {}", id.text(), version));
    }
    if (!isKept(version, before.last_version)) {
      co_return Error(Code::Conflict,
                      fmt::format("the code of version {} is gone: that of the newest {} is kept",
                                  version, kVersionsWithCode));
    }
    NIMBUS_CO_TRY(const auto found, co_await readVersions(store_, id, version, version));
    // It was there with the function, so somebody has removed both since.
    if (found.empty() || found.front().version != version) continue;

    const auto next = std::make_shared<Deployed>(before);
    setRuntime(next->definition, found.front().runtime, found.front().handler);
    next->definition.code_hash = found.front().code_hash;
    next->definition.version = version;
    next->definition.updated_at = store_.now();
    auto stored = co_await commit(id, replacing(before, *next), next);
    if (stored) co_return next->definition;
    if (!isOvertaken(stored.error())) co_return std::move(stored).error();
  }
  co_return overtaken(id);
}

Task<Result<>> Catalog::remove(FunctionId id) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    NIMBUS_CO_TRY(const Deployed before, co_await readExisting(id));
    auto removed = co_await commit(id, removing(before), nullptr);
    if (removed || !isOvertaken(removed.error())) co_return removed;
  }
  co_return overtaken(id);
}

// ---- their parts

Task<Result<Deployed>> Catalog::readExisting(FunctionId id) {
  NIMBUS_CO_TRY(auto found, co_await readFunction(store_, id, defaults_));
  if (!found) co_return noFunction(id);
  co_return *std::move(found);
}

Task<Result<Definition>> Catalog::merge(std::optional<Deployed> before, FunctionId id,
                                        std::shared_ptr<const std::string> body) {
  std::optional<Definition> current;
  if (before) current = std::move(before->definition);
  auto work = [current = std::move(current), id = std::move(id), body = std::move(body),
               defaults = defaults_] { return update(current, id, *body, defaults); };
  return worker_->run(std::move(work));
}

Task<Result<std::shared_ptr<const Catalog::Upload>>> Catalog::readUpload(
    std::shared_ptr<const std::string> body) {
  auto work = [body = std::move(body)]() -> Result<std::shared_ptr<const Upload>> {
    NIMBUS_TRY(auto bundle, readCode(*body));
    if (!bundle) return nullptr;
    auto upload = std::make_shared<Upload>();
    upload->hash = bundle->hash();
    upload->pieces = split(bundle->encode());
    upload->bundle = *std::move(bundle);
    return upload;
  };
  return worker_->run(std::move(work));
}

Deployed Catalog::following(const std::optional<Deployed>& before, Definition wanted) {
  Deployed next(std::move(wanted));
  next.last_version = before ? before->last_version : 0;
  if (!before || !isSameVersion(before->definition, next.definition)) {
    next.definition.version = ++next.last_version;
  }
  next.incarnation = before ? before->incarnation : random_.base36(16);
  next.definition.updated_at = store_.now();
  if (!before) next.definition.created_at = next.definition.updated_at;
  return next;
}

Task<Result<>> Catalog::accept(Definition definition, std::shared_ptr<const Upload> upload,
                               CodeCheck& check) {
  if (upload) co_return co_await check.check(definition, upload->bundle);
  NIMBUS_CO_TRY(const Bundle bundle, co_await code(definition.id, definition.code_hash));
  co_return co_await check.check(definition, bundle);
}

// `batch` must outlive the task.
Task<Result<>> Catalog::addNewVersion(store::Batch& batch, Definition definition,
                                      std::shared_ptr<const Upload> upload) {
  const std::uint64_t number = definition.version;
  const std::uint64_t oldest = number > kVersionsWithCode ? number - kVersionsWithCode : 1;
  // Those whose code is kept so far. They change only together with the function, on which the
  // batch is conditional.
  NIMBUS_CO_TRY(auto kept, co_await readVersions(store_, definition.id, oldest, number - 1));

  VersionInfo version;
  version.version = number;
  version.code_hash = definition.code_hash;
  version.runtime = definition.runtime;
  version.handler = definition.handler;
  version.created_at = definition.updated_at;
  const auto same = std::find_if(kept.begin(), kept.end(), [&](const VersionInfo& other) {
    return other.code_hash == version.code_hash;
  });
  if (same != kept.end()) {
    version.pieces = same->pieces;
  } else if (upload) {
    version.pieces = upload->pieces.size();
    addCode(batch, version.code_hash, upload->pieces);
  }
  addVersion(batch, version);

  kept.push_back(std::move(version));
  if (!isKept(kept.front().version, number)) {
    const VersionInfo leaving = kept.front();
    kept.erase(kept.begin());
    if (!hasCode(kept, leaving.code_hash)) eraseCode(batch, leaving);
  }
  co_return Result<>();
}

Task<Result<>> Catalog::commit(FunctionId id, store::Batch batch, std::shared_ptr<Deployed> next) {
  // Once begun it is seen through: what is stored must be published, also if whoever asked for it
  // leaves meanwhile.
  co_await asio::this_coro::throw_if_cancelled(false);
  auto done = co_await commitInTurn(std::move(id), std::move(batch), std::move(next));
  co_await asio::this_coro::throw_if_cancelled(true);
  co_return done;
}

Task<Result<>> Catalog::commitInTurn(FunctionId id, store::Batch batch,
                                     std::shared_ptr<Deployed> next) {
  const Turns::Turn turn = co_await changes_.take();
  auto applied = co_await store_.commit(partitionOf(id), std::nullopt, std::move(batch)).done();
  if (!applied) {
    // It may have happened: see what is there now. If that fails too, the error says enough.
    if (applied.error().outcome() != Outcome::NotApplied) static_cast<void>(co_await reread(id));
    co_return std::move(applied).error();
  }
  if (next) next->record_version = applied->get<store::RecordWritten>(0).version;
  publish(id, std::move(next));
  co_return Result<>();
}

// ---- publishing; whoever does it has the turn

Task<Result<>> Catalog::reread(FunctionId id) {
  NIMBUS_CO_TRY(auto found, co_await readFunction(store_, id, defaults_));
  publish(id, found ? known(*std::move(found)) : nullptr);
  co_return Result<>();
}

// The one that is published already, if it is the same: then nobody is told of it.
std::shared_ptr<const Deployed> Catalog::known(Deployed deployed) const {
  auto published = find(deployed.definition.id.text());
  if (published && *published == deployed) return published;
  return std::make_shared<const Deployed>(std::move(deployed));
}

void Catalog::publish(const FunctionId& id, std::shared_ptr<const Deployed> now) {
  auto map = std::make_shared<Published::Map>(*published_.all());
  if (now) {
    map->insert_or_assign(id.text(), std::move(now));
  } else {
    map->erase(id.text());
  }
  publish(map);
}

void Catalog::publish(const std::shared_ptr<const Published::Map>& next) {
  const auto before = published_.all();
  published_.replace(next);
  for (const auto& [id, was] : *before) {
    if (!next->contains(id)) tell(was->definition.id, nullptr);
  }
  for (const auto& [id, now] : *next) {
    const auto was = before->find(id);
    if (was == before->end() || was->second != now) tell(now->definition.id, now);
  }
}

void Catalog::tell(const FunctionId& id, const std::shared_ptr<const Deployed>& now) const {
  for (const Listener& listener : listeners_) listener(id, now);
}

}  // namespace nimbus::function
