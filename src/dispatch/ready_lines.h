#pragma once
// The lines of a worker that have something to run, in the order of their turns.

#include "dispatch/line.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace nimbus::dispatch {

class ReadyLines {
 public:
  bool empty() const { return size_ == 0; }

  void push(Line& line, int priority) {
    Level& level = levels_[levelOf(priority)];
    line.next_ready = nullptr;
    if (level.first == nullptr) {
      level.first = &line;
    } else {
      level.last->next_ready = &line;
    }
    level.last = &line;
    ++size_;
  }

  // The first of the highest level; every so often of another, so that none starves.
  Line* pop() {
    if (size_ == 0) return nullptr;
    Level& level = nextLevel();
    Line* const line = level.first;
    level.first = line->next_ready;
    --size_;
    return line;
  }

  // Who has the next ordinary turn.
  const Line* peek() const {
    const auto found = std::find_if(levels_.begin(), levels_.end(), isOccupied);
    return found == levels_.end() ? nullptr : found->first;
  }

 private:
  static constexpr int kHighest = 3;
  static constexpr std::size_t kLevels = 2 * kHighest + 1;
  static constexpr unsigned kPatience = 16;

  struct Level {
    Line* first = nullptr;
    Line* last = nullptr;
  };

  static bool isOccupied(const Level& level) { return level.first != nullptr; }

  static std::size_t levelOf(int priority) {
    return static_cast<std::size_t>(kHighest - std::clamp(priority, -kHighest, kHighest));
  }

  Level& nextLevel() {
    if (++turns_ % kPatience == 0) {
      // The levels take turns at this one, from the highest to the lowest and around.
      for (std::size_t i = 0; i < kLevels; ++i) {
        favoured_ = (favoured_ + 1) % kLevels;
        if (isOccupied(levels_[favoured_])) return levels_[favoured_];
      }
    }
    return *std::find_if(levels_.begin(), levels_.end(), isOccupied);
  }

  std::array<Level, kLevels> levels_;
  std::size_t size_ = 0;
  std::size_t favoured_ = 0;
  unsigned turns_ = 0;
};

}  // namespace nimbus::dispatch
