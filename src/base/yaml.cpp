#include "base/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <optional>
#include <sstream>

namespace nimbus {
namespace {

constexpr int kMaxDepth = 64;

Error invalid(const YAML::Mark& mark, std::string_view why) {
  Error error(Code::InvalidArgument, std::string(why));
  return mark.is_null() ? error : std::move(error).with("line", mark.line + 1);
}

class Converter {
 public:
  explicit Converter(std::size_t max_nodes) : left_(max_nodes) {}

  Result<YamlNode> convert(const YAML::Node& node, int depth = 0) {
    if (left_ == 0) return invalid(node.Mark(), "the document holds too many values");
    // An alias may stand inside what it names, which never ends.
    if (depth > kMaxDepth) return invalid(node.Mark(), "the document is nested too deeply");
    --left_;
    YamlNode out;
    out.line = node.Mark().line + 1;
    switch (node.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null:
        return out;
      case YAML::NodeType::Scalar:
        out.kind = YamlNode::Kind::Scalar;
        out.text = node.Scalar();
        out.quoted = node.Tag() == "!";
        return out;
      case YAML::NodeType::Sequence:
        out.kind = YamlNode::Kind::Sequence;
        for (const auto& item : node) {
          NIMBUS_TRY(auto value, convert(item, depth + 1));
          out.items.push_back({{}, value.line, std::move(value)});
        }
        return out;
      case YAML::NodeType::Map:
        out.kind = YamlNode::Kind::Mapping;
        for (const auto& entry : node) {
          if (!entry.first.IsScalar()) return invalid(entry.first.Mark(), "a key must be a word");
          NIMBUS_TRY(auto value, convert(entry.second, depth + 1));
          out.items.push_back(
              {entry.first.Scalar(), entry.first.Mark().line + 1, std::move(value)});
        }
        return out;
    }
    return out;
  }

 private:
  std::size_t left_;
};

// Sees a document go by and keeps nothing of it.
class Ignore final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override { begin = mark; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override {}
  void OnAlias(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override {}
  void OnScalar(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                const std::string& /*value*/) override {}
  void OnSequenceStart(const YAML::Mark& /*mark*/, const std::string& /*tag*/,
                       YAML::anchor_t /*anchor*/, YAML::EmitterStyle::value /*style*/) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {}
  void OnMapEnd() override {}

  YAML::Mark begin;
};

// Where a second document begins, if there is one. YAML::LoadAll is no way to find out: given a
// document that begins with a comma, yaml-cpp 0.7 makes empty documents of it without end.
std::optional<YAML::Mark> secondDocument(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  Ignore ignore;
  if (parser.HandleNextDocument(ignore) && parser.HandleNextDocument(ignore)) return ignore.begin;
  return std::nullopt;
}

}  // namespace

Result<YamlNode> parseYaml(std::string_view text, std::size_t max_nodes) {
  try {
    const std::string copy(text);
    if (const auto second = secondDocument(copy)) {
      return invalid(*second, "there must be one document, not several");
    }
    return Converter(max_nodes).convert(YAML::Load(copy));
  } catch (const YAML::Exception& error) {
    return invalid(error.mark, fmt::format("not YAML: {}", error.msg));
  }
}

}  // namespace nimbus
