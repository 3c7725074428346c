#include "function/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace nimbus::function {
namespace {

constexpr std::string_view kDirectory = "functions";
constexpr std::string_view kFunctionSpace = "function";
constexpr std::string_view kDefinition = "definition";
constexpr std::string_view kVersionSpace = "versions";
constexpr std::string_view kCodeSpace = "code";
constexpr std::string_view kIncarnationSpace = "incarnation";

constexpr std::size_t kPieceBytes = 512UL * 1024;

// Padded, so that the order of the keys is that of the numbers.
std::string versionKey(std::uint64_t version) {
  return fmt::format("{:010}", version);
}
std::string pieceKey(std::string_view code_hash, std::uint64_t piece) {
  return fmt::format("{}/{:04}", code_hash, piece);
}

void put(store::Batch& batch, std::string_view space, std::string key, std::string value) {
  store::op::Put put;
  put.space = space;
  put.key = std::move(key);
  put.value = std::move(value);
  batch.operations.emplace_back(std::move(put));
}

void require(store::Batch& batch, std::string_view space, std::string_view key,
             store::Version version) {
  store::require::RecordVersion condition;
  condition.space = space;
  condition.key = key;
  condition.version = version;
  batch.conditions.emplace_back(std::move(condition));
}

void requireUnchanged(store::Batch& batch, const Deployed& before) {
  require(batch, kFunctionSpace, kDefinition, before.record_version);
  require(batch, kIncarnationSpace, before.incarnation, 1);
}

void list(store::Batch& batch, const FunctionId& id, std::optional<std::string> value) {
  store::Listing listing;
  listing.directory = kDirectory;
  listing.key = id.text();
  listing.value = std::move(value);
  batch.listings.push_back(std::move(listing));
}

}  // namespace

store::Partition partitionOf(const FunctionId& id) {
  return {"function", {id.text()}};
}

Task<Result<std::optional<Deployed>>> readFunction(store::Store& store, FunctionId id,
                                                   Defaults defaults) {
  NIMBUS_CO_TRY(const auto record,
                co_await store::getRecord(store, partitionOf(id), std::string(kFunctionSpace),
                                          std::string(kDefinition)));
  if (!record) co_return std::nullopt;
  NIMBUS_CO_TRY(Deployed deployed, decode(id, record->value, defaults));
  deployed.record_version = record->version;
  co_return std::optional(std::move(deployed));
}

Task<Result<std::vector<FunctionId>>> readIds(store::Store& store) {
  std::vector<FunctionId> ids;
  std::string after;
  for (bool more = true; more;) {
    NIMBUS_CO_TRY(auto page,
                  co_await store.readDirectory(std::string(kDirectory), after, "", 1'000));
    for (const store::DirectoryEntry& entry : page.items) {
      NIMBUS_CO_TRY(FunctionId id, FunctionId::parse(entry.key));
      ids.push_back(std::move(id));
    }
    if (!page.items.empty()) after = page.items.back().key;
    more = page.more;
  }
  co_return ids;
}

Task<Result<std::vector<VersionInfo>>> readVersions(store::Store& store, FunctionId id,
                                                    std::uint64_t first, std::uint64_t last) {
  std::vector<VersionInfo> versions;
  if (first > last) co_return versions;
  store::query::ScanRecords scan;
  scan.space = kVersionSpace;
  scan.after = versionKey(first - 1);
  scan.limit = static_cast<std::size_t>(last - first + 1);
  NIMBUS_CO_TRY(const auto page,
                co_await store::ask<store::RecordPage>(store, partitionOf(id), std::move(scan)));
  for (const store::Record& record : page.items) {
    NIMBUS_CO_TRY(VersionInfo version, decodeVersion(record.value));
    versions.push_back(std::move(version));
  }
  co_return versions;
}

Task<Result<std::string>> readEncodedCode(store::Store& store, FunctionId id,
                                          std::string code_hash) {
  store::query::ScanRecords scan;
  scan.space = kCodeSpace;
  scan.prefix = code_hash + "/";
  scan.limit = store::kMaxPage;
  NIMBUS_CO_TRY(const auto page,
                co_await store::ask<store::RecordPage>(store, partitionOf(id), std::move(scan)));
  std::string encoded;
  for (const store::Record& record : page.items) encoded += record.value;
  co_return encoded;
}

std::vector<std::string> split(std::string_view encoded_code) {
  std::vector<std::string> pieces;
  for (std::size_t at = 0; at < encoded_code.size(); at += kPieceBytes) {
    pieces.emplace_back(encoded_code.substr(at, kPieceBytes));
  }
  return pieces;
}

store::Batch replacing(const std::optional<Deployed>& before, const Deployed& next) {
  store::Batch batch;
  put(batch, kFunctionSpace, std::string(kDefinition), encode(next));
  if (before) {
    requireUnchanged(batch, *before);
  } else {
    require(batch, kFunctionSpace, kDefinition, 0);
    put(batch, kIncarnationSpace, next.incarnation, "");
  }
  // Always, not only for a new one: an entry that was lost comes back with the next change.
  list(batch, next.definition.id, "");
  return batch;
}

void addVersion(store::Batch& batch, const VersionInfo& version) {
  put(batch, kVersionSpace, versionKey(version.version), encode(version));
}

void addCode(store::Batch& batch, std::string_view code_hash,
             const std::vector<std::string>& pieces) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    put(batch, kCodeSpace, pieceKey(code_hash, i), pieces[i]);
  }
}

void eraseCode(store::Batch& batch, const VersionInfo& version) {
  for (std::uint64_t i = 0; i < version.pieces; ++i) {
    store::op::Erase erase;
    erase.space = kCodeSpace;
    erase.key = pieceKey(version.code_hash, i);
    batch.operations.emplace_back(std::move(erase));
  }
}

store::Batch removing(const Deployed& before) {
  store::Batch batch;
  requireUnchanged(batch, before);
  batch.operations.emplace_back(store::op::DropPartition());
  list(batch, before.definition.id, std::nullopt);
  return batch;
}

}  // namespace nimbus::function
