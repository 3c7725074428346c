#include "cluster/moved.h"

#include <utility>

namespace nimbus::cluster {

Error movedTo(Moved moved) {
  return Error(Code::Fenced, "the session belongs to another node")
      .with("owner", std::move(moved.owner))
      .with("function_id", std::move(moved.function_id))
      .with("session_key", std::move(moved.session_key));
}

std::optional<Moved> movedIn(const Error& error) {
  if (error.code() != Code::Fenced) return std::nullopt;
  std::optional<Moved> moved;
  for (const Error::Field& field : error.fields()) {
    const std::string* const text = std::get_if<std::string>(&field.value);
    if (text == nullptr) continue;
    if (field.name == "owner") moved.emplace().owner = *text;
    if (field.name == "function_id" && moved) moved->function_id = *text;
    if (field.name == "session_key" && moved) moved->session_key = *text;
  }
  return moved;
}

}  // namespace nimbus::cluster
