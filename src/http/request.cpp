#include "http/request.h"

#include "base/assert.h"
#include "http/text.h"

#include <algorithm>

namespace nimbus::http {

const PathParameters::Parameter* PathParameters::find(std::string_view name) const {
  const auto* const end = parameters_.begin() + size_;
  const auto* const found = std::find_if(
      parameters_.begin(), end, [&](const Parameter& parameter) { return parameter.name == name; });
  return found != end ? found : nullptr;
}

std::string_view PathParameters::operator[](std::string_view name) const {
  const Parameter* const found = find(name);
  NIMBUS_ASSERT(found != nullptr, "a handler reads only the parameters of its own pattern");
  return found->value;
}

void PathParameters::add(std::string_view name, std::string_view value) {
  NIMBUS_ASSERT(size_ < kMost, "the router refuses patterns with more parameters");
  parameters_[size_++] = {name, value};
}

std::string_view Request::header(std::string_view name) const {
  for (const HeaderField& field : headers) {
    if (equalIgnoringCase(field.name, name)) return field.value;
  }
  return {};
}

std::size_t Request::headerCount(std::string_view name) const {
  return static_cast<std::size_t>(
      std::count_if(headers.begin(), headers.end(),
                    [&](const HeaderField& field) { return equalIgnoringCase(field.name, name); }));
}

void Request::reset() {
  // A body is the handler's to keep or move; a large one left behind is not hoarded.
  static constexpr std::size_t kKeptBody = 16 * 1024;
  method = Method::Get;
  version = 11;
  target = raw_path = path = query = id = traceparent = peer_address = {};
  headers.clear();
  body.clear();
  if (body.capacity() > kKeptBody) body.shrink_to_fit();
  parameters.clear();
  principal.reset();
  answer_fields.clear();
  decoded_path.clear();
  decoded_parameters.clear();
}

}  // namespace nimbus::http
