#include "gateway/shared_admin_key.h"

#include <sodium.h>
#include <unistd.h>

#include <utility>

namespace nimbus::gateway {
namespace {

constexpr const char* kSpace = "admin";
constexpr const char* kKey = "administrator";

store::Partition partition() {
  return {"administrator", {}};
}

std::string text(const KeyHash& hash) {
  std::string hex(hash.size() * 2 + 1, '\0');
  sodium_bin2hex(hex.data(), hex.size(), hash.data(), hash.size());
  hex.pop_back();
  return hex;
}

Result<KeyHash> parse(const std::string& hex) {
  KeyHash hash{};
  std::size_t size = 0;
  const int failed =
      sodium_hex2bin(hash.data(), hash.size(), hex.data(), hex.size(), nullptr, &size, nullptr);
  if (failed == 0 && size == hash.size()) return hash;
  return Error(Code::Internal, "the store has a hash of the administrator's key that is none");
}

Task<Result<std::optional<KeyHash>>> stored(store::Store& store) {
  NIMBUS_CO_TRY(const auto record, co_await store::getRecord(store, partition(), kSpace, kKey));
  if (!record) co_return std::optional<KeyHash>();
  NIMBUS_CO_TRY(const KeyHash hash, parse(record->value));
  co_return std::optional(hash);
}

}  // namespace

Task<Result<SharedAdminKey>> openSharedAdminKey(store::Store& store, std::string directory,
                                                Random& random) {
  SharedAdminKey shared;
  NIMBUS_CO_TRY(auto known, co_await stored(store));
  if (!known) {
    // The file first: a key that only the store knows would be known to nobody.
    NIMBUS_CO_TRY(AdminKey made, openAdminKey(directory, random));
    store::op::Put put;
    put.space = kSpace;
    put.key = kKey;
    put.value = text(hashKey(made.key));
    put.expected = 0;
    store::Batch batch;
    batch.operations.emplace_back(std::move(put));
    const auto claimed = co_await store.commit(partition(), std::nullopt, std::move(batch)).done();
    NIMBUS_CO_TRY(known, co_await stored(store));
    if (!known) co_return claimed.error();
    if (*known == hashKey(made.key) || !made.is_new) {
      shared.own = std::move(made);
    } else {
      ::unlink(made.path.c_str());  // another instance was quicker, and nobody was told of ours
    }
  } else {
    NIMBUS_CO_TRY(shared.own, findAdminKey(directory));
  }
  shared.hash = *known;
  co_return shared;
}

}  // namespace nimbus::gateway
