#pragma once
// Tables for people: columns stand below each other, and on a terminal no line is broken.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace nimbus::cli {

class Table {
 public:
  enum class Align { Left, Right };
  struct Column {
    std::string title;
    Align align = Align::Left;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // As many cells as there are columns. What is no printable text is escaped.
  void add(std::vector<std::string> cells);
  bool isEmpty() const { return rows_.empty(); }

  // `columns`: the terminal's, whose widest columns of text are cut until a line fits; 0: nobody
  // cuts anything.
  std::string text(std::size_t columns) const;

 private:
  std::vector<std::size_t> widths(std::size_t columns) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace nimbus::cli
