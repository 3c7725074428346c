#include "events/upkeep.h"

#include "events/app_settings.h"
#include "events/names.h"
#include "events/shared_state.h"
#include "events/tracks.h"

#include <utility>

namespace nimbus::events {
namespace {

constexpr std::size_t kAtOnce = 500;
// An entry of the directory is written before its intent, by whoever is not done yet; after so long
// nobody is.
constexpr std::chrono::minutes kListedBefore{1};

Task<Result<>> carryOutLeft(store::Store& store, std::string key, ListedIntent listed) {
  store::query::GetRecord get{kIntentSpace, listed.id};
  NIMBUS_CO_TRY(const auto record, co_await store::ask<std::optional<store::Record>>(
                                       store, listed.session.partition(), std::move(get)));
  if (record) {
    NIMBUS_CO_TRY(Intent intent, Intent::parse(record->key, record->value));
    co_return co_await carryOut(store, listed.session, std::move(intent));
  }
  if (key >= intentKeyBefore(store.now() - kListedBefore)) co_return Result<>();
  store::Batch batch;
  batch.listings.push_back({kIntentDirectory, std::move(key), std::nullopt});
  auto pending = store.commit(appPartition(listed.session.app), std::nullopt, std::move(batch));
  NIMBUS_CO_CHECK(co_await pending.done());
  co_return Result<>();
}

}  // namespace

Task<Result<>> carryOutLeftIntents(store::Store& store) {
  NIMBUS_CO_TRY(const store::DirectoryPage page,
                co_await store.readDirectory(kIntentDirectory, "", "", kAtOnce));
  for (const store::DirectoryEntry& entry : page.items) {
    auto listed = listedIntentOf(entry.value);
    if (!listed) continue;
    NIMBUS_CO_CHECK(co_await carryOutLeft(store, entry.key, *std::move(listed)));
  }
  co_return Result<>();
}

Task<Result<>> removeExpiredTracks(store::Store& store) {
  const std::string now = tracksDueAt(store.now());
  NIMBUS_CO_TRY(const store::DirectoryPage page,
                co_await store.readDirectory(kTrackDirectory, "", "", kAtOnce));
  for (const store::DirectoryEntry& entry : page.items) {
    if (entry.key >= now) break;
    NIMBUS_CO_CHECK(co_await sweepTrack(store, entry));
  }
  co_return Result<>();
}

Task<Result<>> removeExpiredSessions(store::Store& store, Sessions& sessions) {
  std::string after;
  while (true) {
    NIMBUS_CO_TRY(const store::DirectoryPage apps,
                  co_await store.readDirectory(kAppDirectory, after, "", kAtOnce));
    for (const store::DirectoryEntry& app : apps.items) {
      after = app.key;
      NIMBUS_CO_TRY(const AppSettings settings, co_await readSettings(store, app.key));
      if (!settings.session_ttl) continue;
      // Listing removes what it finds gone.
      SessionQuery expired;
      expired.app = app.key;
      expired.after = listedAt(store.now() - *settings.session_ttl);
      expired.limit = kAtOnce;
      NIMBUS_CO_CHECK(co_await sessions.list(std::move(expired)));
    }
    if (!apps.more) co_return Result<>();
  }
}

}  // namespace nimbus::events
