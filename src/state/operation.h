#pragma once
// The operations of the state API, whoever asks for them: a function, over HTTP, a test.

#include "base/result.h"
#include "store/types.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::state {

using store::Version;

enum class Scope : std::uint8_t { Session, Function, Invocation };

struct Operation {
  enum class Kind : std::uint8_t {
    Get,
    GetWithVersion,
    Set,
    SetWithVersion,
    Delete,
    Incr,
    Decr,
    Exists,
    Keys,
    Expire,
    Ttl,
    Persist,
    Clear,
    GetMany,
    SetMany,
  };

  Kind kind = Kind::Get;
  std::string key = {};
  std::vector<std::string> keys = {};    // GetMany, SetMany
  std::vector<std::string> values = {};  // JSON: one for Set, one per key for SetMany
  std::optional<double> ttl = {};        // seconds
  std::int64_t delta = 1;
  std::optional<Version> version = {};  // expected by SetWithVersion; 0: it must not exist
  std::string pattern = "*";
};

struct Found {
  std::string key;
  std::string value;  // JSON
  Version version = 0;
};

// What an operation answers; each kind uses its own part.
struct Answer {
  std::vector<Found> found = {};       // Get, GetWithVersion, GetMany: those that are there
  Version version = 0;                 // after a write of one key
  std::vector<Version> versions = {};  // SetMany
  std::int64_t number = 0;             // Incr, Decr: the value; Clear: how many there were
  bool flag = false;                   // Delete: there was one; Exists
  std::vector<std::string> keys = {};  // Keys
  double ttl = -1;                     // Ttl, in seconds
};

std::optional<Operation::Kind> kindNamed(std::string_view name);
std::string_view nameOf(Operation::Kind kind);
std::optional<Scope> scopeNamed(std::string_view name);
std::string_view nameOf(Scope scope);

bool isWrite(Operation::Kind kind);

// What can be said without looking at any state: keys, a value where one belongs, counts.
Result<> checkForm(const Operation& operation);

}  // namespace nimbus::state
