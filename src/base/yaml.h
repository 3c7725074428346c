#pragma once
// Reads YAML into a plain tree that remembers its lines, so that whoever finds something wrong in
// it can say where. What the values mean is the reader's business: scalars stay text.

#include "base/result.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nimbus {

struct YamlNode {
  enum class Kind { Null, Scalar, Sequence, Mapping };
  struct Entry;

  Kind kind = Kind::Null;
  int line = 0;              // from 1
  std::string text;          // of a scalar
  bool quoted = false;       // "8" is text where 8 is a number
  std::vector<Entry> items;  // of a sequence (keys empty) or a mapping; in order, repeated keys too
};

struct YamlNode::Entry {
  std::string key;
  int line = 0;
  YamlNode value;
};

// The one document in `text`; an empty one is Null. Errors: InvalidArgument, with the field "line".
// Refused besides bad syntax: several documents, keys that are not scalars, nesting deeper than 64,
// and more than `max_nodes` nodes after aliases are resolved: a few lines can stand for billions.
Result<YamlNode> parseYaml(std::string_view text, std::size_t max_nodes = 100'000);

}  // namespace nimbus
