#include "gateway/rate_limits.h"

#include "base/json_text.h"

#include <algorithm>
#include <utility>

namespace nimbus::gateway {
namespace {

// So many are remembered as empty; beyond that the store is asked.
constexpr std::size_t kMostEmpty = 10'000;

constexpr std::array<std::string_view, 4> kNames = {"key", "address", "function", "pairing"};

std::size_t slot(RateLimits::Per per) {
  return static_cast<std::size_t>(per);
}

std::string digits(std::uint64_t number) {
  std::string text;
  appendNumber(text, number);
  return text;
}

// Rounded up: whoever waits as told must not come too early.
std::uint64_t seconds(Millis time) {
  return static_cast<std::uint64_t>((std::max(time, Millis(0)).count() + 999) / 1000);
}

store::op::Take takeOf(RateLimit limit) {
  store::op::Take take;
  take.limiter = "requests";
  const auto window = std::chrono::microseconds(limit.window).count();
  const auto requests = static_cast<std::int64_t>(limit.requests);
  take.interval = std::chrono::microseconds((window + requests - 1) / requests);  // never too many
  take.burst = limit.burst;
  return take;
}

}  // namespace

void RateLimits::addTo(Metrics& metrics) {
  const auto taken = metrics.counters("nimbus_rate_limit_taken_total",
                                      "Requests that were counted and let in.", {{"per"}});
  const auto refused = metrics.counters("nimbus_rate_limit_refused_total",
                                        "Requests that were answered 429 rate_limited.", {{"per"}});
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    taken_[i] = taken.with({std::string(kNames[i])});
    refused_[i] = refused.with({std::string(kNames[i])});
  }
}

Task<Result<>> RateLimits::takeForAddress(http::Request& request) {
  Who who{Per::Address, std::string(request.peer_address)};
  NIMBUS_CO_TRY(const Standing standing,
                co_await takeOne(std::move(who), options_.per_address, request));
  tell(request, standing);
  co_return Result<>();
}

Task<Result<>> RateLimits::takeForPairing(http::Request& request) {
  Who who{Per::Pairing, std::string(request.peer_address)};
  NIMBUS_CO_CHECK(co_await takeOne(std::move(who), options_.per_pairing, request));
  co_return Result<>();
}

Task<Result<>> RateLimits::take(const Principal& principal, std::string function_id,
                                http::Request& request) {
  std::optional<Standing> nearest;
  if (principal.rate_limit.requests != 0) {
    Who who{Per::Key, principal.id};
    NIMBUS_CO_TRY(nearest, co_await takeOne(std::move(who), principal.rate_limit, request));
  }
  if (!function_id.empty() && options_.per_function.requests != 0) {
    Who who{Per::Function, std::move(function_id)};
    NIMBUS_CO_TRY(const Standing standing,
                  co_await takeOne(std::move(who), options_.per_function, request));
    if (!nearest || standing.remaining < nearest->remaining) nearest = standing;
  }
  if (nearest) tell(request, *nearest);
  co_return Result<>();
}

Task<Result<RateLimits::Standing>> RateLimits::takeOne(Who who, RateLimit limit,
                                                       http::Request& request) {
  const std::string_view per = kNames[slot(who.per)];
  const store::Partition partition("limit", {per, who.id});
  if (auto maybe = checkEmpty(partition.name()); !maybe) {
    co_return refuse(who.per, maybe.error(), limit, request);
  }
  store::Batch batch;
  batch.operations.emplace_back(takeOf(limit));
  const SteadyTime begun = clock_.now();
  store::PendingCommit commit = store_.commit(partition, std::nullopt, std::move(batch));
  const auto applied = co_await commit.applied();
  if (!applied) {
    const Error& error = applied.error();
    if (error.code() != Code::RateLimited) co_return error;
    // Counted from before the store looked, and a little less: never later than it is there.
    rememberEmpty(partition.name(), begun + Millis(error.field("retry_after_ms", 0) - 1),
                  Millis(error.field("reset_after_ms", 0)));
    co_return refuse(who.per, error, limit, request);
  }
  if (taken_[slot(who.per)]) taken_[slot(who.per)]->increment();
  const auto& taken = applied->get<store::Taken>(0);
  co_return Standing{limit.burst, taken.remaining, taken.reset_after};
}

Result<> RateLimits::checkEmpty(const std::string& name) {
  const SteadyTime now = clock_.now();
  const std::lock_guard lock(mutex_);
  const auto found = empty_.find(name);
  if (found == empty_.end()) return {};
  if (now >= found->second.until) {
    empty_.erase(found);
    return {};
  }
  // `until` is a little early, and whoever waits as told should be let in.
  const auto ceil = [&](SteadyTime until) {
    return (std::max(std::chrono::ceil<Millis>(until - now), Millis(0)) + Millis(1)).count();
  };
  return Error(Code::RateLimited, "too many requests")
      .with("retry_after_ms", ceil(found->second.until))
      .with("reset_after_ms", ceil(found->second.full_at));
}

void RateLimits::rememberEmpty(std::string name, SteadyTime until, Millis reset_after) {
  const SteadyTime now = clock_.now();
  const std::lock_guard lock(mutex_);
  if (empty_.size() >= kMostEmpty) {
    std::erase_if(empty_, [&](const auto& entry) { return entry.second.until <= now; });
  }
  if (empty_.size() < kMostEmpty) empty_[std::move(name)] = {until, now + reset_after};
}

Error RateLimits::refuse(Per per, Error error, RateLimit limit, http::Request& request) {
  if (refused_[slot(per)]) refused_[slot(per)]->increment();
  tell(request, {limit.burst, 0, Millis(error.field("reset_after_ms", 0))});
  return Error(Code::RateLimited,
               std::string("too many requests for this ") + std::string(kNames[slot(per)]))
      .with("retry_after_ms", error.field("retry_after_ms", 0))
      .with("limit", static_cast<std::int64_t>(limit.requests))
      .with("per", std::string(kNames[slot(per)]));
}

void RateLimits::tell(http::Request& request, const Standing& standing) {
  request.answer_fields.clear();  // of the limit asked last; one set can be understood
  request.answer_fields.add("RateLimit-Limit", digits(standing.limit));
  request.answer_fields.add("RateLimit-Remaining", digits(standing.remaining));
  request.answer_fields.add("RateLimit-Reset", digits(seconds(standing.reset_after)));
}

}  // namespace nimbus::gateway
