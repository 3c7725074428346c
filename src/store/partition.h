#pragma once
// What can commit together.
//
// Everything that belongs to one session (or one flow, one device, one function) lives in one
// partition: in Redis one hash tag and so one slot, in SQLite one row prefix. Identifiers that
// callers chose become part of a stored name here and nowhere else.

#include <compare>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

namespace nimbus::store {

class Partition {
 public:
  // `kind` says what it is a partition of ("session"), in lower-case letters and '-'. `parts` are
  // identifiers as callers gave them: two different (kind, parts) never get the same name, and no
  // character in a part has a meaning in it.
  Partition(std::string_view kind, std::initializer_list<std::string_view> parts);

  // The encoded name: "session:cart:alice%3A1". Holds no '{', '}', or glob character, so it can be
  // a Redis hash tag as it stands, and is readable where the parts are.
  const std::string& name() const { return name_; }

  auto operator<=>(const Partition&) const = default;

 private:
  std::string name_;
};

// `part` with '%', ':', '/', '\', spaces, control, hash-tag and glob characters percent-encoded.
std::string encodePart(std::string_view part);

}  // namespace nimbus::store

template <>
struct std::hash<nimbus::store::Partition> {
  std::size_t operator()(const nimbus::store::Partition& partition) const noexcept {
    return std::hash<std::string>()(partition.name());
  }
};
