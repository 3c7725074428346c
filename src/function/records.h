#pragma once
// Functions in the store: where what is kept, and how it is read and written. The Catalog decides
// what is to be.
//
// A function is one partition, ("function", id), and an entry of the directory "functions". Its
// spaces:
//   function     "definition"      what deployed.h encodes
//   versions     "0000000007"      what version_info.h encodes
//   code         "<hash>/0003"     a piece of what Bundle encodes
//   incarnation  "<nonce>"         there while that life of the name lasts. Record versions begin
//                                  anew with a partition; this tells one life from the next

#include "base/ids.h"
#include "base/result.h"
#include "base/task.h"
#include "function/deployed.h"
#include "function/version_info.h"
#include "store/store.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::function {

store::Partition partitionOf(const FunctionId& id);

// ---- reading. `store` must outlive the task.

Task<Result<std::optional<Deployed>>> readFunction(store::Store& store, FunctionId id,
                                                   Defaults defaults);

// Ids in the directory; some may have no function.
Task<Result<std::vector<FunctionId>>> readIds(store::Store& store);

// Those from `first` to `last`, oldest first; at most kMaxPage of them.
Task<Result<std::vector<VersionInfo>>> readVersions(store::Store& store, FunctionId id,
                                                    std::uint64_t first, std::uint64_t last);

// The pieces joined; empty if there is none.
Task<Result<std::string>> readEncodedCode(store::Store& store, FunctionId id,
                                          std::string code_hash);

// ---- writing. Each batch is refused (VersionConflict) unless the function is as it was `before`.

// Pieces of at most 512 KiB: no record is so large that reading or moving one takes long.
std::vector<std::string> split(std::string_view encoded_code);

// `next` in place of `before`, or where there was none. What its first operation answers is the
// RecordWritten of the function.
store::Batch replacing(const std::optional<Deployed>& before, const Deployed& next);
void addVersion(store::Batch& batch, const VersionInfo& version);
void addCode(store::Batch& batch, std::string_view code_hash,
             const std::vector<std::string>& pieces);
void eraseCode(store::Batch& batch, const VersionInfo& version);

store::Batch removing(const Deployed& before);

}  // namespace nimbus::function
