#include "gateway/list_text.h"

#include "base/json_text.h"

#include <boost/algorithm/hex.hpp>

#include <iterator>

namespace nimbus::gateway {

Result<std::string> afterOf(const http::Query& query) {
  NIMBUS_TRY(const auto cursor, query.text("cursor"));
  std::string after;
  if (!cursor || cursor->empty()) return after;
  try {
    boost::algorithm::unhex(*cursor, std::back_inserter(after));
  } catch (const boost::algorithm::hex_decode_error&) {
    return Error(Code::InvalidArgument, "this cursor is none that a list has answered with")
        .with("parameter", "cursor");
  }
  return after;
}

void ListText::add(std::string_view item) {
  if (!items_.empty()) items_ += ',';
  items_ += item;
}

std::string ListText::finish(const std::optional<std::string>& next, std::string_view alias) && {
  std::string text = R"({"items":[)" + items_ + ']';
  if (!alias.empty()) {
    text += ',';
    appendJsonString(text, alias);
    text += ":[" + items_ + ']';
  }
  text += R"(,"next_cursor":)";
  if (next) {
    text += '"';
    boost::algorithm::hex_lower(*next, std::back_inserter(text));
    text += '"';
  } else {
    text += "null";
  }
  text += '}';
  return text;
}

}  // namespace nimbus::gateway
