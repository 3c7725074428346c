#pragma once
// A function as the catalog has it, and as it is stored.

#include "base/result.h"
#include "function/definition.h"
#include "store/types.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace nimbus::function {

struct Deployed {
  explicit Deployed(Definition its_definition) : definition(std::move(its_definition)) {}

  Definition definition;

  // The highest version there ever was; the current one may be lower after a rollback.
  std::uint64_t last_version = 0;
  // Which life of the name this is: another after every removal.
  std::string incarnation;
  // Of the record it is kept in; grows with every change in one life. Not part of that record.
  store::Version record_version = 0;

  bool operator==(const Deployed&) const = default;
};

// What is kept is what was said, so that defaults apply as they are when it is read.
std::string encode(const Deployed& deployed);

// Internal if the text is not what encode() makes.
Result<Deployed> decode(const FunctionId& id, std::string_view text, const Defaults& defaults);

}  // namespace nimbus::function
