#pragma once
// The administrator's key, in DIR/admin.key: "nk_" and 50 characters of [0-9a-z] (258 bits), then a
// line end; mode 0600.

#include "base/random.h"
#include "base/result.h"

#include <optional>
#include <string>

namespace nimbus::gateway {

struct AdminKey {
  std::string key;
  std::string path;
  bool is_new = false;  // made by this call
};

// Reads the key, or makes one if there is none. It is durable before this returns. Of several
// processes that start at once on one directory one makes the key and all return it: the file
// appears whole or not at all.
//
// Errors: the directory cannot be written, or the file holds no key; it is then left as it is.
Result<AdminKey> openAdminKey(const std::string& directory, Random& random);

// The key of the directory, if it has one.
Result<std::optional<AdminKey>> findAdminKey(const std::string& directory);

}  // namespace nimbus::gateway
