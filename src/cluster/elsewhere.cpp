#include "cluster/elsewhere.h"

#include <functional>
#include <utility>

namespace nimbus::cluster {
namespace {

std::string nameOf(std::string_view function_id, std::string_view session_key) {
  std::string name;
  name.reserve(function_id.size() + 1 + session_key.size());
  name.append(function_id).push_back('\0');
  name.append(session_key);
  return name;
}

}  // namespace

Elsewhere::Part& Elsewhere::partOf(const std::string& name) const {
  return parts_[std::hash<std::string>()(name) % kParts];
}

std::optional<std::string> Elsewhere::find(std::string_view function_id,
                                           std::string_view session_key) const {
  const std::string name = nameOf(function_id, session_key);
  Part& part = partOf(name);
  const std::lock_guard lock(part.mutex);
  const auto found = part.owners.find(name);
  return found != part.owners.end() ? std::optional(found->second) : std::nullopt;
}

void Elsewhere::remember(std::string_view function_id, std::string_view session_key,
                         std::string owner) {
  std::string name = nameOf(function_id, session_key);
  Part& part = partOf(name);
  const std::lock_guard lock(part.mutex);
  if (part.owners.size() >= kMostInPart) part.owners.clear();
  part.owners.insert_or_assign(std::move(name), std::move(owner));
}

void Elsewhere::forget(std::string_view function_id, std::string_view session_key) {
  const std::string name = nameOf(function_id, session_key);
  Part& part = partOf(name);
  const std::lock_guard lock(part.mutex);
  part.owners.erase(name);
}

void Elsewhere::clear() {
  for (Part& part : parts_) {
    const std::lock_guard lock(part.mutex);
    part.owners.clear();
  }
}

}  // namespace nimbus::cluster
