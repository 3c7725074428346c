#pragma once
// A node, as the registry in the store has it.

#include "base/clock.h"
#include "base/result.h"
#include "cluster/process_identity.h"
#include "store/types.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace nimbus::cluster {

struct Member {
  // Of one run of one instance, between joining and leaving or losing its lease. It never comes
  // back: a node that has lost its lease joins under another, so what is gone is gone for ever.
  std::string key;      // "<id>~<random>"
  std::string id;       // `instanceId`, for people
  std::string address;  // where other nodes reach it, "10.0.0.7:8788"
  std::string url;      // where clients do
  std::string version;  // of the program
  Timestamp started_at;
  ProcessIdentity process;
  bool is_leaving = false;     // it takes nothing more over
  std::uint64_t sessions = 0;  // that it holds in memory, a moment ago
  std::uint64_t instances = 0;

  // Of the record: not part of its value.
  store::Version record_version = 0;
  Timestamp lease_until;

  std::string toJson() const;
  static Result<Member> fromJson(std::string_view json);
};

// The id in a key: of a node that may be gone.
std::string_view idOfKey(std::string_view key);

}  // namespace nimbus::cluster
