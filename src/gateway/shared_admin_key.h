#pragma once
// The administrator's key of a store that several instances share, each with a data directory of
// its own. The first instance makes the key, in its directory; the store keeps its hash, by which
// the others know it.

#include "base/random.h"
#include "base/result.h"
#include "base/task.h"
#include "gateway/admin_key.h"
#include "gateway/api_key.h"
#include "store/store.h"

#include <optional>
#include <string>

namespace nimbus::gateway {

struct SharedAdminKey {
  KeyHash hash{};  // of the key that all instances accept
  // The key in this instance's directory, if there is one. Usually the same; where it is not, this
  // instance accepts both: whoever may write there may do anything.
  std::optional<AdminKey> own;
};

Task<Result<SharedAdminKey>> openSharedAdminKey(store::Store& store, std::string directory,
                                                Random& random);

}  // namespace nimbus::gateway
