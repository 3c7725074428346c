#include "cli/listing.h"

#include "base/json.h"
#include "base/json_text.h"
#include "cli/table.h"
#include "cli/text_width.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ostream>

namespace nimbus::cli {
namespace {

std::string numberText(const JsonValue& value) {
  if (const auto integer = value.integer()) return std::to_string(*integer);
  return fmt::format("{:.6g}", value.number().value_or(0));
}

std::string namesText(const JsonValue& value) {
  std::string text;
  for (const JsonValue& name : value.elements()) {
    if (!text.empty()) text += ", ";
    text += name.string().value_or("…");
  }
  return text.empty() ? "-" : text;
}

// Without the milliseconds: "2026-01-31T09:08:07Z".
std::string timeOf(std::string_view text) {
  const std::size_t dot = text.find('.');
  return dot == text.npos ? std::string(text) : std::string(text.substr(0, dot)) + "Z";
}

// `raw` is one member's value as it stands in the answer.
std::string cellOf(std::string_view raw, Shown::As as) {
  const auto value = parseJson(raw);
  if (!value) return {};
  switch (value->kind()) {
    case JsonValue::Kind::Null:
      return "-";
    case JsonValue::Kind::Boolean:
      return *value->boolean() ? "yes" : "no";
    case JsonValue::Kind::Number:
      return as == Shown::As::Bytes ? bytesText(*value->number()) : numberText(*value);
    case JsonValue::Kind::String:
      return as == Shown::As::Time ? timeOf(*value->string()) : std::string(*value->string());
    case JsonValue::Kind::Array:
      if (as == Shown::As::Number) return std::to_string(value->elements().size());
      if (as == Shown::As::Names) return namesText(*value);
      break;
    case JsonValue::Kind::Object:
      break;
  }
  return std::string(raw);
}

struct Page {
  std::string items;  // without brackets
  std::optional<std::string> next;
};

std::optional<Page> pageOf(const std::string& body, std::string_view items) {
  const auto members = splitObject(body);
  if (!members) return std::nullopt;
  Page page;
  for (const RawMember& member : *members) {
    if (member.name == items && member.value.size() >= 2) {
      page.items = trimJson(member.value.substr(1, member.value.size() - 2));
    }
    if (member.name != "next_cursor") continue;
    const auto next = parseJson(member.value);
    if (next && next->string()) page.next = std::string(*next->string());
  }
  return page;
}

std::string withQuery(const std::string& target, std::string_view more) {
  if (more.empty()) return target;
  return target + (target.find('?') == target.npos ? '?' : '&') + std::string(more);
}

std::string pageTarget(const std::string& target, const std::optional<std::string>& limit,
                       const std::string& cursor) {
  std::string with = target;
  if (limit) with = withQuery(with, "limit=" + client::encoded(*limit));
  if (!cursor.empty()) with = withQuery(with, "cursor=" + client::encoded(cursor));
  return with;
}

Table tableOf(const std::string& items, const std::vector<Shown>& columns) {
  std::vector<Table::Column> heads;
  for (const Shown& column : columns) {
    const bool is_number = column.as == Shown::As::Number || column.as == Shown::As::Bytes;
    heads.push_back({column.title, is_number ? Table::Align::Right : Table::Align::Left});
  }
  Table table(std::move(heads));
  const std::string array = "[" + items + "]";
  const auto rows = splitArray(array);
  if (!rows) return table;
  for (const std::string_view row : *rows) {
    const auto members = splitObject(row);
    if (!members) continue;
    std::vector<std::string> cells;
    for (const Shown& column : columns) {
      const auto member = std::find_if(members->begin(), members->end(), [&](const RawMember& one) {
        return one.name == column.member;
      });
      cells.push_back(member == members->end() ? "-" : cellOf(member->value, column.as));
    }
    table.add(std::move(cells));
  }
  return table;
}

}  // namespace

std::string bytesText(double bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

std::string query(const std::vector<std::pair<std::string, std::string>>& parameters) {
  std::string text;
  for (const auto& [name, value] : parameters) {
    if (value.empty()) continue;
    text += text.empty() ? '?' : '&';
    text += name + "=" + client::encoded(value);
  }
  return text;
}

std::vector<Option> listOptions() {
  using enum Option::Takes;
  return {
      {"--limit", "How many at most; the server has a default", OneValue, "N"},
      {"--cursor", "Go on where an earlier list ended", OneValue, "CURSOR"},
      {"--all", "Every page"},
  };
}

Exit list(Remote& remote, const Arguments& arguments, const std::string& target,
          const std::vector<Shown>& columns, std::string_view empty, std::string_view items) {
  Context& context = remote.context();
  const bool all = arguments.has("--all");
  const auto limit = all ? std::optional<std::string>("1000") : arguments.one("--limit");
  std::string cursor = arguments.one("--cursor").value_or("");
  std::string together;
  std::optional<std::string> next;
  do {
    const auto answer = remote.get(pageTarget(target, limit, cursor));
    if (!answer) return Exit::Failed;
    const auto page = pageOf(answer->body, items);
    if (!page) {
      context.error("the answer is no list", "is that a Nimbus server of this version?");
      return Exit::Failed;
    }
    if (remote.wantsJson() && !all) {
      context.out << answer->body << '\n';
      return Exit::Ok;
    }
    if (!together.empty() && !page->items.empty()) together += ',';
    together += page->items;
    next = page->next;
    cursor = next.value_or("");
  } while (all && next);
  if (remote.wantsJson()) {
    context.out << fmt::format(R"({{"{}":[{}],"next_cursor":null}})", items, together) << '\n';
    return Exit::Ok;
  }
  const Table table = tableOf(together, columns);
  if (table.isEmpty()) {
    context.err << empty << '\n';
    return Exit::Ok;
  }
  context.out << table.text(context.columns);
  if (next) context.err << fmt::format("there are more: --all, or --cursor {}\n", printable(*next));
  return Exit::Ok;
}

void showObject(Remote& remote, const std::string& object) {
  Context& context = remote.context();
  const auto members = splitObject(object);
  if (remote.wantsJson() || !members) {
    context.out << object << '\n';
    return;
  }
  std::size_t width = 0;
  for (const RawMember& member : *members) width = std::max(width, textWidth(member.name));
  for (const RawMember& member : *members) {
    std::string value(member.value);
    const auto parsed = parseJson(member.value);
    if (parsed && parsed->string()) value = shownText(*parsed->string());
    if (parsed && parsed->kind() == JsonValue::Kind::Null) value = "-";
    context.out << member.name << std::string(width - textWidth(member.name) + 2, ' ') << value
                << '\n';
  }
}

Exit show(Remote& remote, const std::string& target) {
  const auto answer = remote.get(target);
  if (!answer) return Exit::Failed;
  showObject(remote, answer->body);
  return Exit::Ok;
}

}  // namespace nimbus::cli
