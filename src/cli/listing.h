#pragma once
// What the server lists and shows, as a table or as it came.

#include "cli/remote.h"

#include <string>
#include <string_view>
#include <vector>

namespace nimbus::cli {

// A column of a table made of the members of JSON objects.
struct Shown {
  enum class As { Text, Number, Time, Bytes, Names };
  std::string title;
  std::string member;
  As as = As::Text;
};

// --limit, --cursor, --all
std::vector<Option> listOptions();

// One page, or with --all every page, of the list at `target`; the page's items are in `items`,
// whatever they are called there. `empty` is said on stderr if there are none.
Exit list(Remote& remote, const Arguments& arguments, const std::string& target,
          const std::vector<Shown>& columns, std::string_view empty,
          std::string_view items = "items");

// The object at `target`, a line for each member.
Exit show(Remote& remote, const std::string& target);
// The same of an object that is here already.
void showObject(Remote& remote, const std::string& object);

// "1.5 KiB"
std::string bytesText(double bytes);

// `?a=b&c=d` of what is not empty.
std::string query(const std::vector<std::pair<std::string, std::string>>& parameters);

}  // namespace nimbus::cli
