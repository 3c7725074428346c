#include "store/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace nimbus::store {

std::optional<Timestamp> expiryOf(const Expiry& expiry, const Replaced& replaced) {
  return expiry.keep_existing && replaced.live ? replaced.expires_at : expiry.at;
}

std::optional<std::int64_t> parseInteger(std::string_view text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, number);
  if (failure != std::errc() || stop != end) return std::nullopt;
  // from_chars takes "007" and "-0" too. One spelling per number keeps all backends alike.
  const std::string_view digits = text.substr(text.front() == '-' ? 1 : 0);
  if (digits.front() == '0' && text != "0") return std::nullopt;
  return number;
}

Result<std::int64_t> addTo(std::optional<std::string_view> text, std::int64_t delta) {
  std::int64_t number = 0;
  if (text) {
    const auto parsed = parseInteger(*text);
    if (!parsed) return Error(Code::InvalidArgument, "the value is not an integer");
    number = *parsed;
  }
  std::int64_t sum = 0;
  if (__builtin_add_overflow(number, delta, &sum)) {
    return Error(Code::InvalidArgument, "the sum does not fit into 64 bits");
  }
  return sum;
}

namespace {

// Waiting times are rounded up: whoever waits that long gets in.
Millis ceilMillis(std::int64_t micros) {
  return std::chrono::ceil<Millis>(std::chrono::microseconds(micros));
}

}  // namespace

Result<GcraStep> gcra(const op::Take& take, std::int64_t arrival_us, Timestamp now) {
  // Within these bounds no product below overflows.
  constexpr std::int64_t kMaxInterval = 86'400'000'000;  // one unit a day
  constexpr std::uint64_t kMaxBurst = 10'000'000;
  const std::int64_t interval = take.interval.count();
  if (interval < 1 || interval > kMaxInterval || take.burst < 1 || take.burst > kMaxBurst ||
      take.cost < 1 || take.cost > take.burst) {
    return Error(Code::InvalidArgument,
                 "a limiter needs an interval of 1 us to 1 day, a burst of 1 to 10000000, and a "
                 "cost of 1 to the burst");
  }
  const std::int64_t now_us =
      std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count();
  const std::int64_t capacity = interval * static_cast<std::int64_t>(take.burst);
  // A clock that stepped back must not lock anybody out for longer than a full limiter would.
  const std::int64_t start = std::clamp(arrival_us, now_us, now_us + capacity);
  const std::int64_t next = start + interval * static_cast<std::int64_t>(take.cost);
  const std::int64_t over = next - (now_us + capacity);
  if (over > 0) {
    return Error(Code::RateLimited, "too many requests")
        .with("retry_after_ms", ceilMillis(over).count())
        .with("reset_after_ms", ceilMillis(start - now_us).count());
  }
  const auto remaining = static_cast<std::uint64_t>(-over / interval);
  return GcraStep{next, Taken{remaining, ceilMillis(next - now_us)}};
}

Result<> checkLimit(std::size_t limit) {
  if (limit >= 1 && limit <= kMaxPage) return {};
  return Error(Code::InvalidArgument,
               fmt::format("a page has 1 to {} items, not {}", kMaxPage, limit));
}

Result<> checkQuery(const Query& query) {
  const auto check = [](const auto& q) -> Result<> {
    if constexpr (requires { q.limit; }) return checkLimit(q.limit);
    return {};
  };
  return std::visit(check, query);
}

Error chainBroken() {
  return {Code::Conflict, "the commit that this one builds on was lost"};
}

Error fenced(const std::string& lease) {
  return {Code::Fenced, fmt::format("the lease '{}' is not held with this token", lease)};
}

Error versionConflict(Version current) {
  return Error(Code::VersionConflict, fmt::format("the current version is {}", current))
      .with("current_version", static_cast<std::int64_t>(current));
}

Error versionTooLow(Version given, Version highest) {
  return Error(Code::Conflict,
               fmt::format("a record cannot take version {}: it may have had {}", given, highest))
      .with("current_version", static_cast<std::int64_t>(highest));
}

Error notFound(std::string_view what, const std::string& id) {
  return {Code::NotFound, fmt::format("there is no {} '{}'", what, id)};
}

Error idTaken(const std::string& id, Seq seq) {
  return Error(Code::Conflict, fmt::format("the id '{}' belongs to another entry", id))
      .with("seq", static_cast<std::int64_t>(seq));
}

Error leaseHeld(const std::string& lease, const std::string& holder) {
  return Error(Code::Conflict, fmt::format("the lease '{}' is held by '{}'", lease, holder))
      .with("holder", holder);
}

Error quotaExceeded(std::string_view what, std::uint64_t limit) {
  return Error(Code::QuotaExceeded, fmt::format("at most {} {} are allowed", limit, what))
      .with("limit", static_cast<std::int64_t>(limit));
}

Error logMoved(const std::string& log, const LogInfo& info) {
  return Error(Code::Conflict, fmt::format("the log '{}' has changed", log))
      .with("last_seq", static_cast<std::int64_t>(info.last_seq))
      .with("revision", static_cast<std::int64_t>(info.revision));
}

}  // namespace nimbus::store
