#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string_view>

namespace nimbus::store::sqlite {

// The things of one kind that a batch has met so far, by name. A batch meets few, so they are found
// by looking; and places are kept for the next batch, so that none is allocated per commit.
// T has a member `std::string_view name`. Pointers stay valid until forgetAll().
template <typename T>
class Met {
 public:
  struct Found {
    T* thing;
    bool first_time;
  };

  Found find(std::string_view name) {
    const auto known =
        std::find_if(begin(), end(), [&](const T& thing) { return thing.name == name; });
    if (known != end()) return {&*known, false};
    if (used_ == things_.size()) things_.emplace_back();
    T& thing = things_[used_++];
    thing = T{};
    thing.name = name;
    return {&thing, true};
  }

  void forgetAll() { used_ = 0; }

  auto begin() { return things_.begin(); }
  auto end() { return things_.begin() + static_cast<std::ptrdiff_t>(used_); }

 private:
  std::deque<T> things_;
  std::size_t used_ = 0;
};

}  // namespace nimbus::store::sqlite
