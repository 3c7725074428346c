#include "store/sqlite/fail_stop.h"

#include "base/log.h"
#include "store/sqlite/database.h"

#include <cstdlib>
#include <utility>

namespace nimbus::store::sqlite {
namespace {

constexpr int kExitDisk = 74;

// Without destructors: they would use the file once more.
void endProcess(const Error&) {
  std::_Exit(kExitDisk);
}

}  // namespace

FailStop::FailStop(std::function<void(const Error&)> end)
    : end_(end ? std::move(end) : endProcess) {}

void FailStop::check(const Error& error) const {
  if (!isFatal(error)) return;
  log::error("the database cannot be trusted any more; stopping so that a new start can check it",
             {{"reason", error.message()}});
  end_(error);
}

}  // namespace nimbus::store::sqlite
