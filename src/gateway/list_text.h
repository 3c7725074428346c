#pragma once
// Lists as the API answers them: {"items": [...], "next_cursor": "..." | null}. A cursor is the
// last key of a page, in hexadecimal: callers shall not read it.

#include "base/result.h"
#include "http/query.h"

#include <optional>
#include <string>
#include <string_view>

namespace nimbus::gateway {

// The key after which a list goes on; empty at first. InvalidArgument if the cursor is none of
// ours.
Result<std::string> afterOf(const http::Query& query);

class ListText {
 public:
  void add(std::string_view item);
  // `next`: the last key of a page that is not the last. `alias`: the items under another name too.
  std::string finish(const std::optional<std::string>& next, std::string_view alias = {}) &&;

 private:
  std::string items_;
};

}  // namespace nimbus::gateway
