#pragma once
// The text of / and /docs. They load nothing from elsewhere.

#include <string_view>

namespace nimbus::gateway {

extern const std::string_view kIndexPage;
extern const std::string_view kDocsPage;
extern const std::string_view kDocsScript;
extern const std::string_view kDocsStyle;

}  // namespace nimbus::gateway
