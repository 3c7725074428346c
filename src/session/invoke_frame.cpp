#include "session/invoke_frame.h"

#include "base/json_text.h"
#include "runtime/frame.h"

#include <boost/container/small_vector.hpp>
#include <fmt/format.h>

#include <iterator>
#include <utility>
#include <vector>

namespace nimbus::session {
namespace {

using runtime::FrameType;
using runtime::FrameWriter;
using Kind = state::Operation::Kind;
using Entry = state::Space::Entries::value_type;

// How much of a session's state goes along with each call. More would cost those who do not look at
// it; less would cost those who do a message.
constexpr std::size_t kAlong = 16UL * 1024;
// A session with more keys than this sends none but those whose values go along.
constexpr std::size_t kListed = 1000;

std::int64_t millisOf(const std::optional<Timestamp>& time) {
  return time ? time->time_since_epoch().count() : 0;
}

void appendEntry(std::string& out, const Entry& entry) {
  out += '[';
  appendJsonString(out, entry.first);
  out += ',';
  appendNumber(out, entry.second.version);
  out += ',';
  appendNumber(out, millisOf(entry.second.expires_at));
  out += ',';
  appendNumber(out, entry.second.value.size());
  out += ']';
}

// Few sessions have more.
using Entries = boost::container::small_vector<const Entry*, 32>;

void appendEntries(std::string& out, const Entries& entries) {
  out += '[';
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i != 0) out += ',';
    appendEntry(out, *entries[i]);
  }
  out += ']';
}

void appendContext(std::string& out, const Call& call, Timestamp deadline) {
  out += R"({"context":{"request_id":)";
  appendJsonString(out, call.request_id);
  out += R"(,"function_id":)";
  appendJsonString(out, call.function->id);
  out += R"(,"version":)";
  appendNumber(out, call.function->version);
  out += R"(,"session_key":)";
  if (call.session_key) {
    appendJsonString(out, *call.session_key);
    out += R"(,"session_seq":)";
    appendNumber(out, call.outcome.seq);
  } else {
    out += R"(null,"session_seq":null)";
  }
  out += R"(,"attempt":)";
  appendNumber(out, call.attempt);
  out += R"(,"deadline_ms":)";
  appendNumber(out, deadline.time_since_epoch().count());
  out += R"(,"traceparent":)";
  if (call.traceparent.empty()) {
    out += "null}";
  } else {
    appendJsonString(out, call.traceparent);
    out += '}';
  }
}

}  // namespace

void writeInvoke(std::string& out, std::uint64_t request, const Call& call,
                 const state::Space* space, Timestamp now) {
  Entries listed;  // those with their values first
  std::size_t along = 0;
  if (space != nullptr) {
    Entries rest;
    std::size_t left = kAlong;
    for (const Entry& entry : space->entries()) {
      if (entry.second.value.size() <= left) {
        left -= entry.second.value.size();
        listed.push_back(&entry);
      } else {
        rest.push_back(&entry);
      }
    }
    along = listed.size();
    if (listed.size() + rest.size() <= kListed) {
      listed.insert(listed.end(), rest.begin(), rest.end());
    }
  }
  FrameWriter writer(out, FrameType::Invoke, request, 2 + along);
  appendContext(out, call, now + call.timeout);
  out += R"(,"now":)";
  appendNumber(out, now.time_since_epoch().count());
  if (space != nullptr) {
    out += R"(,"state":{"floor":)";
    appendNumber(out, space->floor());
    out += listed.size() == space->entries().size() ? R"(,"complete":true,"keys":)"
                                                    : R"(,"complete":false,"keys":)";
    appendEntries(out, listed);
    out += '}';
  }
  out += '}';
  writer.endSegment();
  writer.segment(call.payload);
  for (std::size_t i = 0; i < along; ++i) writer.segment(listed[i]->second.value);
  writer.finish();
}

void writeLoaded(std::string& out, std::uint64_t request, std::int64_t id,
                 const state::Space& space, const std::vector<std::string>* keys) {
  Entries entries;
  if (keys != nullptr) {
    for (const std::string& key : *keys) {
      const auto found = space.entries().find(key);
      if (found != space.entries().end()) entries.push_back(&*found);
    }
  } else {
    for (const Entry& entry : space.entries()) entries.push_back(&entry);
  }
  FrameWriter writer(out, FrameType::State, request, 1 + (keys != nullptr ? entries.size() : 0));
  fmt::format_to(std::back_inserter(out), R"({{"id":{},"success":true,"keys":)", id);
  appendEntries(out, entries);
  out += '}';
  writer.endSegment();
  for (std::size_t i = 0; keys != nullptr && i < entries.size(); ++i) {
    writer.segment(entries[i]->second.value);
  }
  writer.finish();
}

void writeStateReply(std::string& out, std::uint64_t request, std::int64_t id, Kind kind,
                     const Result<state::Answer>& answer) {
  const bool has_values =
      kind == Kind::Get || kind == Kind::GetWithVersion || kind == Kind::GetMany;
  const std::size_t values = answer && has_values ? answer->found.size() : 0;
  FrameWriter writer(out, FrameType::State, request, 1 + values);
  fmt::format_to(std::back_inserter(out), R"({{"id":{},"success":{})", id, answer.has_value());
  if (!answer) {
    out += R"(,"error":)";
    appendJsonString(out, codeName(answer.error().code()));
    out += R"(,"message":)";
    appendJsonString(out, answer.error().message());
    if (answer.error().code() == Code::VersionConflict) {
      out += R"(,"current_version":)";
      appendNumber(out, answer.error().field("current_version", 0));
    }
    out += '}';
    writer.endSegment();
    writer.finish();
    return;
  }
  out += R"(,"version":)";
  appendNumber(out, answer->version);
  switch (kind) {
    case Kind::Incr:
    case Kind::Decr:
    case Kind::Clear:
      out += R"(,"value":)";
      appendNumber(out, answer->number);
      break;
    case Kind::Delete:
    case Kind::Exists:
      out += answer->flag ? R"(,"value":true)" : R"(,"value":false)";
      break;
    case Kind::Ttl:
      out += R"(,"value":)";
      fmt::format_to(std::back_inserter(out), "{}", answer->ttl);
      break;
    case Kind::Keys:
    case Kind::GetMany: {
      out += kind == Kind::Keys ? R"(,"value":[)" : R"(,"keys":[)";
      bool first = true;
      const auto add = [&](std::string_view key) {
        if (!std::exchange(first, false)) out += ',';
        appendJsonString(out, key);
      };
      for (const std::string& key : answer->keys) add(key);
      for (const state::Found& found : answer->found) add(found.key);
      out += ']';
      break;
    }
    case Kind::SetMany: {
      out += R"(,"versions":[)";
      for (std::size_t i = 0; i < answer->versions.size(); ++i) {
        if (i != 0) out += ',';
        appendNumber(out, answer->versions[i]);
      }
      out += ']';
      break;
    }
    default:
      break;
  }
  out += '}';
  writer.endSegment();
  for (std::size_t i = 0; i < values; ++i) writer.segment(answer->found[i].value);
  writer.finish();
}

}  // namespace nimbus::session
