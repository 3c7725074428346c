#pragma once
// State that sessions share: an app's, and a user's.
//
// It lies in other partitions than the sessions, so an append cannot change it in its own commit.
// The append leaves an intent beside the event instead. The intent is carried out before the append
// is answered: each partition takes the change together with a mark that it did, which makes a
// second try harmless, and then the intent goes. A directory lists intents, so that those a crash
// left behind are found (upkeep.h), and a session's next change carries out what it finds.

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "base/task.h"
#include "events/event.h"
#include "events/names.h"
#include "store/store.h"

#include <string>
#include <string_view>
#include <vector>

namespace nimbus::events {

// What one state may hold.
inline constexpr std::uint64_t kMaxStateKeys = 1'000;
inline constexpr std::uint64_t kMaxStateBytes = 1'048'576;

// Puts and erases of one state. Of several changes of one key the last counts.
std::vector<store::Operation> operationsOf(const std::vector<Change>& changes);
store::Condition stateWithin();

struct Intent {
  std::string id;
  StateDelta delta;  // its app and user parts

  std::string toJson() const;
  static Result<Intent> parse(std::string id, std::string_view json);
};

// Adds the intent to the commit that makes it.
void addIntent(store::Batch& batch, const SessionName& session, const Intent& intent);

// QuotaExceeded if the states could not take the changes now. Asked before an intent is made,
// because one that was made is carried out whatever it finds.
Task<Result<>> checkRoom(store::Store& store, SessionName session, StateDelta delta);

// Does it, once however often it is called.
Task<Result<>> carryOut(store::Store& store, SessionName session, Intent intent);
// The intents in the answer to a scan of the session's intents.
Result<std::vector<Intent>> intentsOf(const store::RecordPage& page);
store::Query scanIntents();

// Ids are in the order of time, and are the keys under which the directory lists intents.
std::string makeIntentId(Timestamp now, Random& random);
std::string intentKeyBefore(Timestamp time);
struct ListedIntent {
  SessionName session;
  std::string id;
};
std::optional<ListedIntent> listedIntentOf(std::string_view text);

}  // namespace nimbus::events
