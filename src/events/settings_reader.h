#pragma once
// The settings of apps, read for many at once: who asks while they are being read waits for the
// next reading, together with all others who do. So nobody is answered what was read before it
// asked, and the store is asked once for many.

#include "base/one_shot.h"
#include "base/result.h"
#include "base/task.h"
#include "events/app_settings.h"
#include "store/store.h"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace nimbus::events {

// Any thread. Every read() must have ended before it is destroyed.
class SettingsReader {
 public:
  explicit SettingsReader(store::Store& store) : store_(store) {}

  Task<Result<AppSettings>> read(std::string app);

 private:
  struct Waiter;
  using WaiterPtr = std::shared_ptr<Waiter>;
  // What somebody who waits is told: the answer, or to read, for these too.
  struct Word {
    std::optional<Result<AppSettings>> answer;
    std::vector<WaiterPtr> others;
  };
  struct Waiter {
    OneShot<Word> word;
  };

  // Somebody of those who wait reads next.
  void handOn(const std::string& app);

  store::Store& store_;
  std::mutex mutex_;
  // Apps whose settings are being read, and who came since.
  std::unordered_map<std::string, std::vector<WaiterPtr>> reading_;
};

}  // namespace nimbus::events
