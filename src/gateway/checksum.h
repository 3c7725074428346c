#pragma once

#include "gateway/api_key.h"

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <string_view>

namespace nimbus::gateway {

// Of what is carried from server to server: "sha256:…".
inline std::string checksumOf(std::string_view content) {
  std::string text = "sha256:";
  for (const unsigned char byte : hashKey(content)) {
    fmt::format_to(std::back_inserter(text), "{:02x}", byte);
  }
  return text;
}

}  // namespace nimbus::gateway
