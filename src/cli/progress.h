#pragma once
// A bar for long work, on a terminal only.

#include "cli/command.h"

#include <cstddef>
#include <string>

namespace nimbus::cli {

class Progress {
 public:
  // `total` 0: nobody knows how much it will be.
  Progress(Context& context, std::string what, std::size_t total);
  // Takes the bar away.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // One more is done.
  void step();

 private:
  void draw();

  Context& context_;
  std::string what_;
  std::size_t total_;
  std::size_t done_ = 0;
  bool shown_;
};

}  // namespace nimbus::cli
