#include "events/settings_reader.h"

#include <exception>
#include <utility>

namespace nimbus::events {

Task<Result<AppSettings>> SettingsReader::read(std::string app) {
  WaiterPtr own;
  {
    const std::lock_guard lock(mutex_);
    const auto [line, is_first] = reading_.try_emplace(app);
    if (!is_first) line->second.push_back(own = std::make_shared<Waiter>());
  }
  std::vector<WaiterPtr> others;
  if (own) {
    Word word = co_await own->word.wait(own);
    if (word.answer) co_return *std::move(word.answer);
    others = std::move(word.others);
  }
  Result<AppSettings> answer = Error(Code::Internal, "the settings of the app cannot be read");
  std::exception_ptr thrown;
  try {
    answer = co_await readSettings(store_, app);
  } catch (...) {
    thrown = std::current_exception();
  }
  handOn(app);
  for (const WaiterPtr& other : others) other->word.set({answer, {}});
  if (thrown) std::rethrow_exception(thrown);
  co_return answer;
}

void SettingsReader::handOn(const std::string& app) {
  WaiterPtr next;
  Word word;
  {
    const std::lock_guard lock(mutex_);
    const auto line = reading_.find(app);
    if (line->second.empty()) {
      reading_.erase(line);
      return;
    }
    word.others = std::exchange(line->second, {});
  }
  next = std::move(word.others.back());
  word.others.pop_back();
  next->word.set(std::move(word));
}

}  // namespace nimbus::events
