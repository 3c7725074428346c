#include "cli/table.h"

#include "base/assert.h"
#include "cli/text_width.h"

#include <algorithm>

namespace nimbus::cli {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kLeast = 8;  // a column is not cut to less than this

}  // namespace

void Table::add(std::vector<std::string> cells) {
  NIMBUS_ASSERT(cells.size() == columns_.size(), "a row has a cell for each column");
  for (std::string& cell : cells) cell = shownText(cell);
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> Table::widths(std::size_t columns) const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(textWidth(column.title));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], textWidth(row[i]));
  }
  if (columns == 0) return widths;
  const auto total = [&] {
    std::size_t sum = kGap * (widths.size() - 1);
    for (const std::size_t width : widths) sum += width;
    return sum;
  };
  while (total() > columns) {
    const auto widest = std::max_element(widths.begin(), widths.end());
    if (*widest <= kLeast) break;
    *widest = std::max(kLeast, *widest - std::min(*widest, total() - columns));
  }
  return widths;
}

std::string Table::text(std::size_t columns) const {
  const std::vector<std::size_t> wide = widths(columns);
  std::string text;
  const auto line = [&](const auto& cell_of) {
    std::string written;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::string cell = cutToWidth(cell_of(i), wide[i]);
      const std::string space(wide[i] - textWidth(cell), ' ');
      if (i != 0) written.append(kGap, ' ');
      written += columns_[i].align == Align::Right ? space + cell : cell + space;
    }
    written.erase(written.find_last_not_of(' ') + 1);
    text += written + "\n";
  };
  line([&](std::size_t i) { return columns_[i].title; });
  for (const auto& row : rows_) line([&](std::size_t i) { return row[i]; });
  return text;
}

}  // namespace nimbus::cli
