#pragma once
// One version of a function: code, runtime and handler, which never change.

#include "base/clock.h"
#include "base/result.h"
#include "function/definition.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace nimbus::function {

struct VersionInfo {
  std::uint64_t version = 0;
  std::string code_hash;
  Runtime runtime = Runtime::Python;
  std::string handler;
  Timestamp created_at;
  std::uint64_t pieces = 0;  // records that hold the code

  // Not stored: what it is now.
  bool current = false;
  bool code_available = true;

  bool operator==(const VersionInfo&) const = default;
};

// As the API shows it.
std::string toJson(const VersionInfo& version);

// For the store. Internal if the text is not what encode() makes.
std::string encode(const VersionInfo& version);
Result<VersionInfo> decodeVersion(std::string_view text);

}  // namespace nimbus::function
