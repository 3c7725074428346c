#include "cli/transfer.h"

#include "base/json.h"
#include "base/json_text.h"
#include "cli/listing.h"
#include "cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace nimbus::cli {
namespace {

constexpr std::string_view kMark = R"({"nimbus_export":2})";
constexpr std::chrono::seconds kLongestWait{60};
constexpr int kWaits = 100;  // for one request
constexpr std::string_view kFunctionUser = "_";

// As client.send(), but whoever is told to come later does. This is work of many requests, and
// servers count them.
Result<client::Answer> sendPatiently(Remote& remote, const client::Request& request) {
  Result<client::Answer> answer = remote.client().send(request);
  for (int i = 0; i < kWaits && answer && answer->status == 429; ++i) {
    const std::string_view text = answer->header("Retry-After");
    std::int64_t seconds = 1;
    std::from_chars(text.data(), text.data() + text.size(), seconds);
    std::this_thread::sleep_for(
        std::clamp(std::chrono::seconds(seconds), std::chrono::seconds(1), kLongestWait));
    answer = remote.client().send(request);
  }
  return answer;
}

std::optional<std::string> bodyAt(Remote& remote, std::string target) {
  client::Request request;
  request.target = std::move(target);
  const auto answer = sendPatiently(remote, request);
  if (!answer) {
    remote.explain(answer.error());
    return std::nullopt;
  }
  if (!answer->isOk()) {
    remote.explain(*answer, request.target);
    return std::nullopt;
  }
  return answer->body;
}

// On one line: what JSON has between its tokens may go, and inside strings there is no line end.
std::string onOneLine(std::string text) {
  std::erase_if(text, [](char c) { return c == '\n' || c == '\r'; });
  return text;
}

std::string quoted(std::string_view text) {
  std::string json;
  appendJsonString(json, text);
  return json;
}

using Row = std::vector<std::string>;

// These members of all items of a list.
std::optional<std::vector<Row>> rowsOf(Remote& remote, const std::string& target,
                                       const std::vector<std::string>& members,
                                       std::string_view items = "items") {
  std::vector<Row> rows;
  std::string cursor;
  do {
    const auto body = bodyAt(remote, target + query({{"limit", "1000"}, {"cursor", cursor}}));
    if (!body) return std::nullopt;
    const auto page = parseJson(*body);
    if (!page) return std::nullopt;
    if (const auto array = page->member(items)) {
      for (const JsonValue& item : array->elements()) {
        Row row;
        for (const std::string& member : members) {
          const auto value = item.member(member);
          const auto number = value ? value->number() : std::nullopt;
          row.push_back(number ? fmt::format("{}", *number)
                               : std::string(item.string(member).value_or("")));
        }
        rows.push_back(std::move(row));
      }
    }
    cursor = page->string("next_cursor").value_or("");
  } while (!cursor.empty());
  return rows;
}

class Export {
 public:
  Export(Remote& remote, const LineSink& sink) : remote_(remote), sink_(sink) {}

  bool sessionsOf(const std::string& function) {
    const std::string path = functionAt(function) + "/sessions";
    const auto sessions = rowsOf(remote_, path, {"session_key"});
    if (!sessions) return false;
    Progress progress(remote_.context(), "exporting sessions of " + function, sessions->size());
    for (const Row& row : *sessions) {
      const std::string& key = row.front();
      if (!document(path + "/" + client::encoded(key),
                    fmt::format(R"({{"kind":"session","id":{},"document":)", quoted(function)))) {
        return false;
      }
      exported_.emplace(function, key);
      progress.step();
    }
    return true;
  }

  bool everything() {
    const auto functions = rowsOf(remote_, "/api/v1/functions", {"id"});
    if (!functions) return false;
    for (const Row& row : *functions) {
      const std::string& id = row.front();
      const auto body = bodyAt(remote_, functionAt(id) + "/export");
      if (!body || !write(fmt::format(R"({{"kind":"function","id":{},"body":{}}})", quoted(id),
                                      onOneLine(*body)))) {
        return false;
      }
    }
    // What one function sends to another finds it there.
    for (const Row& row : *functions) {
      if (!functionState(row.front()) || !sessionsOf(row.front())) return false;
    }
    const auto apps = rowsOf(remote_, "/api/v1/apps", {"app"});
    if (!apps) return false;
    return std::all_of(apps->begin(), apps->end(),
                       [&](const Row& row) { return app(row.front()); });
  }

  bool write(const std::string& line) {
    ++lines_;
    return sink_(line);
  }

  bool end() { return sink_(fmt::format(R"({{"kind":"end","lines":{}}})", lines_)); }

 private:
  static std::string functionAt(const std::string& id) {
    return "/api/v1/functions/" + client::encoded(id);
  }

  // What is at `path`/export, between `before` and a brace. It may have gone by now: nothing then.
  bool document(const std::string& path, const std::string& before) {
    client::Request request;
    request.target = path + "/export";
    const auto answer = sendPatiently(remote_, request);
    if (!answer) {
      remote_.explain(answer.error());
      return false;
    }
    if (answer->isOk()) return write(before + onOneLine(answer->body) + "}");
    if (answer->status == 404) {
      request.target = path;
      const auto there = sendPatiently(remote_, request);
      if (there && there->status == 404) return true;
    }
    remote_.explain(*answer, request.target);
    return false;
  }

  bool functionState(const std::string& function) {
    const std::string path = functionAt(function) + "/function-state";
    const auto keys = rowsOf(remote_, path, {"key", "ttl"}, "keys");
    if (!keys) return false;
    for (const Row& row : *keys) {
      client::Request request;
      request.target = path + "/" + client::encoded(row[0]);
      const auto value = sendPatiently(remote_, request);
      if (value && value->status == 404) continue;  // it has expired
      if (!value || !value->isOk()) {
        value ? remote_.explain(*value, request.target) : remote_.explain(value.error());
        return false;
      }
      if (!write(fmt::format(R"({{"kind":"function_state","id":{},"key":{},"ttl":{},"value":{}}})",
                             quoted(function), quoted(row[0]), row[1], quoted(value->body)))) {
        return false;
      }
    }
    return true;
  }

  bool app(const std::string& name) {
    const std::string path = "/api/v1/apps/" + client::encoded(name);
    if (!settingsAndState(name, path)) return false;
    const auto sessions = rowsOf(remote_, path + "/sessions", {"user_id", "id"});
    if (!sessions) return false;
    std::set<std::string> users;
    Progress progress(remote_.context(), "exporting event logs of " + name, sessions->size());
    for (const Row& row : *sessions) {
      const std::string user = path + "/users/" + client::encoded(row[0]);
      if (users.insert(row[0]).second &&
          !state(user, fmt::format(R"({{"kind":"user_state","app":{},"user":{})", quoted(name),
                                   quoted(row[0])))) {
        return false;
      }
      progress.step();
      // Went with its session.
      if (row[0] == kFunctionUser && exported_.contains({name, row[1]})) continue;
      if (!document(user + "/sessions/" + client::encoded(row[1]),
                    fmt::format(R"({{"kind":"events","app":{},"user":{},"document":)", quoted(name),
                                quoted(row[0])))) {
        return false;
      }
    }
    return true;
  }

  bool settingsAndState(const std::string& name, const std::string& path) {
    const auto body = bodyAt(remote_, path);
    if (!body) return false;
    const auto members = splitObject(*body);
    if (!members) return false;
    std::string settings;
    for (const RawMember& member : *members) {
      if (member.name != "max_events_per_session" && member.name != "eviction_batch_size" &&
          member.name != "session_ttl" && member.name != "indexes") {
        continue;
      }
      if (!settings.empty()) settings += ',';
      settings.append(quoted(member.name)).append(":").append(member.value);
    }
    return write(fmt::format(R"({{"kind":"app","app":{},"settings":{{{}}}}})", quoted(name),
                             settings)) &&
           state(path, fmt::format(R"({{"kind":"app_state","app":{})", quoted(name)));
  }

  bool state(const std::string& path, const std::string& before) {
    const auto body = bodyAt(remote_, path + "/state");
    if (!body) return false;
    const auto members = splitObject(*body);
    if (!members) return false;
    // The answer is the state, or names it.
    std::string text = onOneLine(*body);
    for (const RawMember& member : *members) {
      if (member.name == "state") text = onOneLine(std::string(member.value));
    }
    return text == "{}" || write(before + R"(,"state":)" + text + "}");
  }

  Remote& remote_;
  const LineSink& sink_;
  std::set<std::pair<std::string, std::string>> exported_;
  std::size_t lines_ = 0;
};

client::Request requestOf(std::string method, std::string target, std::string body) {
  client::Request request = post(std::move(target), std::move(body));
  request.method = std::move(method);
  return request;
}

}  // namespace

bool exportLines(Remote& remote, const std::optional<std::string>& function, const LineSink& sink) {
  if (!sink(std::string(kMark))) return false;
  Export all(remote, sink);
  return (function ? all.sessionsOf(*function) : all.everything()) && all.end();
}

bool LineImport::send(const client::Request& request, bool may_exist) {
  const auto answer = sendPatiently(remote_, request);
  if (!answer) {
    remote_.explain(answer.error());
    return false;
  }
  if (answer->status == 409 && may_exist && options_.skips_existing) {
    ++skipped_;
    return true;
  }
  if (!answer->isOk()) {
    remote_.explain(*answer, request.target);
    return false;
  }
  ++taken_;
  return true;
}

bool LineImport::take(const std::string& line) {
  if (lines_++ == 0) {
    if (line == kMark) return true;
    remote_.context().error("this was not written by `nimbus export`");
    return false;
  }
  std::string document;  // as it stands in the line
  std::optional<std::vector<RawMember>> members;
  if (auto split = splitObject(line)) members = *std::move(split);
  for (std::size_t i = 0; members && i < members->size(); ++i) {
    const RawMember& member = (*members)[i];
    for (const std::string_view name : {"body", "document", "settings", "state"}) {
      if (member.name == name) document = std::string(member.value);
    }
  }
  const auto root = parseJson(line);
  if (!members || !root) {
    remote_.context().error("a line is no JSON: the file was changed or cut");
    return false;
  }
  const auto text = [&](std::string_view name) {
    return std::string(root->string(name).value_or(""));
  };
  const std::string kind = text("kind");
  const std::string id = options_.function.value_or(text("id"));
  const std::string function = "/api/v1/functions/" + client::encoded(id);
  const std::string app = "/api/v1/apps/" + client::encoded(text("app"));
  const std::string user = app + "/users/" + client::encoded(text("user"));
  if (kind == "end") {
    is_complete_ = root->integer("lines") == static_cast<std::int64_t>(lines_) - 2;
    return true;
  }
  if (kind == "function") return send(requestOf("PUT", function, document), false);
  if (kind == "session") return send(post(function + "/sessions:import", document), true);
  if (kind == "function_state") {
    const double ttl = root->member("ttl") ? root->member("ttl")->number().value_or(-1) : -1;
    return send(requestOf("PUT",
                          fmt::format("{}/function-state/{}?ttl={}", function,
                                      client::encoded(text("key")), ttl),
                          text("value")),
                false);
  }
  if (kind == "app") return send(requestOf("PUT", app, document), false);
  if (kind == "app_state") return send(requestOf("PATCH", app + "/state", document), false);
  if (kind == "user_state") return send(requestOf("PATCH", user + "/state", document), false);
  if (kind == "events") return send(post(user + "/sessions:import", document), true);
  remote_.context().error(fmt::format("there is no kind \"{}\" of lines", printable(kind)),
                          "a newer nimbus may have written them");
  return false;
}

}  // namespace nimbus::cli
