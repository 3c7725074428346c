#include "cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <utility>

namespace nimbus::cli {
namespace {

constexpr std::size_t kCells = 24;

std::string times(std::string_view text, std::size_t count) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

}  // namespace

Progress::Progress(Context& context, std::string what, std::size_t total)
    : context_(context), what_(std::move(what)), total_(total), shown_(context.err_is_terminal) {
  draw();
}

Progress::~Progress() {
  if (shown_) context_.err << "\r\x1b[K" << std::flush;
}

void Progress::step() {
  ++done_;
  draw();
}

void Progress::draw() {
  if (!shown_) return;
  if (total_ == 0) {
    context_.err << fmt::format("\r\x1b[K{} {}", what_, done_) << std::flush;
    return;
  }
  const std::size_t filled = std::min(kCells, kCells * done_ / total_);
  context_.err << fmt::format("\r\x1b[K{} {}{} {}/{}", what_, times("█", filled),
                              times("░", kCells - filled), done_, total_)
               << std::flush;
}

}  // namespace nimbus::cli
