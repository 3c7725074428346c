#include "cluster/members.h"

#include "base/log.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace nimbus::cluster {
namespace {

namespace asio = boost::asio;

constexpr const char* kNodes = "nodes";
constexpr const char* kSecrets = "secrets";
constexpr const char* kSecret = "nodes";
constexpr std::size_t kMostNodes = 1'000;
// Heartbeats in the time of a lease.
constexpr int kBeats = 5;
constexpr int kRenewals = 4;
constexpr Millis kLookForLease{10};
// Keys of nodes that are no more, so that it need not be asked for each of their sessions.
constexpr std::size_t kMostGone = 10'000;

Result<std::vector<Member>> membersOf(const store::RecordPage& page) {
  std::vector<Member> members;
  for (const store::Record& record : page.items) {
    NIMBUS_TRY(Member member, Member::fromJson(record.value));
    member.key = record.key;
    member.record_version = record.version;
    member.lease_until = record.expires_at.value_or(Timestamp());
    members.push_back(std::move(member));
  }
  return members;
}

bool isSameSet(const View& a, const View& b) {
  return a.self == b.self &&
         std::equal(a.members.begin(), a.members.end(), b.members.begin(), b.members.end(),
                    [](const Member& one, const Member& other) {
                      return one.key == other.key && one.is_leaving == other.is_leaving;
                    });
}

}  // namespace

const Member* View::find(std::string_view key) const {
  const auto found =
      std::lower_bound(members.begin(), members.end(), key,
                       [](const Member& one, std::string_view text) { return one.key < text; });
  return found != members.end() && found->key == key ? &*found : nullptr;
}

std::string_view View::proposedFor(std::uint64_t point) const {
  const auto place = ring.ownerOf(point);
  return place ? std::string_view(members[on_ring[*place]].key) : std::string_view();
}

Members::Members(Options options, Parts parts, asio::any_io_executor executor)
    : options_(std::move(options)),
      store_(parts.store),
      clock_(parts.clock),
      random_(parts.random),
      timer_(executor),
      group_(executor, "nodes"),
      view_(std::make_shared<View>()) {}

Members::~Members() = default;

store::Partition Members::partition() {
  return {"nodes", {}};
}

void Members::onChange(std::function<void(const View&, const View&)> changed) {
  changed_.push_back(std::move(changed));
}

ViewPtr Members::view() const {
  const std::lock_guard lock(mutex_);
  return view_;
}

// ---- The own lease

Task<Result<>> Members::openSecret() {
  for (int attempt = 0; attempt < 2; ++attempt) {
    NIMBUS_CO_TRY(const auto known,
                  co_await store::getRecord(store_, partition(), kSecrets, kSecret));
    if (known) {
      secret_ = known->value;
      co_return Result<>();
    }
    store::Batch batch;
    batch.operations.emplace_back(
        store::op::Put{kSecrets, kSecret, random_.base36(48), {}, 0});  // refused: one was quicker
    static_cast<void>(co_await store_.commit(partition(), std::nullopt, std::move(batch)).done());
  }
  co_return Error(Code::Unavailable, "the secret of the nodes cannot be written");
}

Member Members::own() const {
  Member member;
  member.id = options_.id;
  member.address = address_;
  member.url = url_;
  member.version = options_.version;
  member.started_at = started_at_;
  member.process = process_;
  member.is_leaving = is_leaving_.load();
  if (figures_) {
    const Figures figures = figures_();
    member.sessions = figures.sessions;
    member.instances = figures.instances;
  }
  return member;
}

Task<Result<>> Members::enrol() {
  const SteadyTime before = clock_.now();
  const std::string key = fmt::format("{}~{}", options_.id, random_.base36(8));
  store::op::Put put{kNodes, key, own().toJson(), {store_.now() + options_.lease, false}, 0};
  store::Batch batch;
  batch.operations.emplace_back(std::move(put));
  NIMBUS_CO_TRY(const store::Applied applied,
                co_await store_.commit(partition(), std::nullopt, std::move(batch)).done());
  version_ = applied.get<store::RecordWritten>(0).version;
  {
    const std::lock_guard lock(mutex_);
    self_ = key;
  }
  sure_until_ = (before + options_.lease * 3 / 4).time_since_epoch().count();
  term_.store(++terms_, std::memory_order_release);
  co_return Result<>();
}

Task<Result<>> Members::join(std::string address, std::string url) {
  address_ = std::move(address);
  url_ = std::move(url);
  started_at_ = store_.now();
  NIMBUS_CO_CHECK(co_await openSecret());
  NIMBUS_CO_CHECK(co_await refresh());
  // One that was configured to have this id is restarted: what it owned need not wait.
  const ViewPtr before = view();
  for (const Member& member : before->members) {
    if (member.id == options_.id || isGone(member.process)) co_await erase(member.key);
  }
  NIMBUS_CO_CHECK(co_await enrol());
  co_return co_await refresh();
}

void Members::lose() {
  term_.store(0, std::memory_order_release);
  const std::lock_guard lock(mutex_);
  self_.clear();
}

Task<Result<>> Members::renew() {
  const std::string key = self();
  for (int attempt = 0; attempt < kRenewals; ++attempt) {
    const SteadyTime before = clock_.now();
    store::op::Put put{
        kNodes, key, own().toJson(), {store_.now() + options_.lease, false}, version_};
    store::Batch batch;
    batch.operations.emplace_back(std::move(put));
    const auto renewed = co_await store_.commit(partition(), std::nullopt, std::move(batch)).done();
    if (renewed) {
      version_ = renewed->get<store::RecordWritten>(0).version;
      sure_until_.store((before + options_.lease * 3 / 4).time_since_epoch().count(),
                        std::memory_order_release);
      co_return Result<>();
    }
    if (renewed.error().code() != Code::VersionConflict) co_return renewed.error();
    // Expired, or removed; or an earlier renewal went through whose answer was lost.
    NIMBUS_CO_TRY(const auto stored, co_await store::getRecord(store_, partition(), kNodes, key));
    if (!stored) {
      lose();
      log::warn("this node was not heard of in time and has lost its lease; it joins anew",
                {{"node", key}});
      co_return co_await enrol();
    }
    version_ = stored->version;
  }
  co_return Error(Code::Unavailable, "the lease of this node is written by another");
}

Task<Result<>> Members::renewNow() {
  Result<> renewed;
  if (term() != 0) {
    renewed = co_await renew();
  } else {
    renewed = co_await enrol();
  }
  if (renewed) co_await removeGone();
  // Also if it was not renewed: whoever waits for a node that is gone must hear of it.
  Result<> looked = co_await refresh();
  co_return renewed ? looked : renewed;
}

Task<> Members::beat() {
  bool was_well = true;
  while (true) {
    timer_.expires_after(options_.lease / kBeats);
    boost::system::error_code ignored;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    const Result<> well = co_await renewNow();
    if (!well && was_well) {
      log::warn("the lease of this node cannot be renewed", {{"error", well.error().message()}});
    }
    was_well = well.has_value();
  }
}

void Members::start() {
  group_.add(beat());
}

Task<> Members::beginToLeave() {
  is_leaving_ = true;
  if (term() != 0) static_cast<void>(co_await renew());
  static_cast<void>(co_await refresh());
}

Task<> Members::leave() {
  is_leaving_ = true;
  group_.cancel();
  co_await group_.join();
  std::string key = self();
  lose();
  if (!key.empty()) co_await erase(std::move(key));
}

std::string Members::self() const {
  const std::lock_guard lock(mutex_);
  return self_;
}

// Whatever its version: keys do not come back.
Task<> Members::erase(std::string key) {
  store::Batch batch;
  batch.operations.emplace_back(store::op::Erase{kNodes, std::move(key), std::nullopt});
  static_cast<void>(co_await store_.commit(partition(), std::nullopt, std::move(batch)).done());
}

// ---- Others

Task<Result<>> Members::refresh() {
  const std::uint64_t order = ++reads_;
  store::query::ScanRecords scan;
  scan.space = kNodes;
  scan.limit = kMostNodes;
  NIMBUS_CO_TRY(const auto page,
                co_await store::ask<store::RecordPage>(store_, partition(), std::move(scan)));
  NIMBUS_CO_TRY(std::vector<Member> members, membersOf(page));
  publish(order, std::move(members));
  co_return Result<>();
}

void Members::publish(std::uint64_t order, std::vector<Member> members) {
  auto now = std::make_shared<View>();
  now->members = std::move(members);
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < now->members.size(); ++i) {
    if (now->members[i].is_leaving) continue;
    ids.push_back(now->members[i].id);
    now->on_ring.push_back(i);
  }
  now->ring = Ring(ids);
  ViewPtr before;
  {
    const std::lock_guard lock(mutex_);
    if (order < published_) return;  // a later read was quicker
    published_ = order;
    if (met_.size() >= kMostGone) met_.clear();
    for (const Member& member : now->members) met_.insert(member.key);
    now->self = self_;
    before = std::exchange(view_, now);
  }
  const bool has_others = std::any_of(now->members.begin(), now->members.end(),
                                      [&](const Member& one) { return one.key != now->self; });
  has_others_.store(has_others, std::memory_order_relaxed);
  if (isSameSet(*before, *now)) return;
  changes_.fetch_add(1, std::memory_order_relaxed);
  elsewhere_.clear();
  for (const Member& member : now->members) {
    if (before->find(member.key) != nullptr || member.key == now->self) continue;
    log::info("a node is there", {{"node", member.key}, {"address", member.address}});
  }
  for (const Member& member : before->members) {
    if (now->find(member.key) != nullptr) continue;
    log::info("a node is gone", {{"node", member.key}});
  }
  for (const auto& changed : changed_) changed(*before, *now);
}

Task<Result<Members::Place>> Members::place(std::string owner, std::uint64_t point) {
  Place place;
  // A lease that was lost is mostly had again at once.
  const SteadyTime deadline = clock_.now() + options_.lease / 2;
  while (term() == 0 && !isLeaving() && clock_.now() < deadline) {
    asio::steady_timer timer(co_await asio::this_coro::executor, kLookForLease);
    co_await timer.async_wait(asio::use_awaitable);
  }
  ViewPtr now = view();
  place.self = self();
  if (term() == 0 || place.self.empty()) {
    co_return Error(Code::Unavailable, "this node has lost its lease and has not joined anew yet")
        .with("retry_after_ms", options_.lease.count() / kBeats);
  }
  if (owner == place.self) {
    place.is_here = true;
    co_return place;
  }
  if (!owner.empty()) {
    bool is_there = now->find(owner) != nullptr;
    bool is_known_to_be_gone = false;
    if (!is_there) {
      const std::lock_guard lock(mutex_);
      is_known_to_be_gone = gone_.contains(owner);
    }
    if (!is_there && !is_known_to_be_gone) {
      // Not by what was known before: it may have joined since.
      NIMBUS_CO_CHECK(co_await refresh());
      now = view();
      is_there = now->find(owner) != nullptr;
      if (!is_there) {
        const std::lock_guard lock(mutex_);
        if (gone_.size() >= kMostGone) gone_.clear();
        gone_.insert(owner);
      }
    }
    if (is_there) {
      place.owner = std::move(owner);
      co_return place;
    }
  }
  const std::string_view proposed = now->proposedFor(point);
  place.is_here = proposed.empty() || proposed == place.self;
  if (!place.is_here) place.owner = proposed;
  co_return place;
}

bool Members::hasMet(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  return met_.contains(key);
}

Task<> Members::removeGone() {
  const ViewPtr now = view();
  for (const Member& member : now->members) {
    if (member.key != now->self && isGone(member.process)) co_await erase(member.key);
  }
}

Task<> Members::suspect(std::string key) {
  const ViewPtr now = view();
  const Member* const member = now->find(key);
  if (member != nullptr && isGone(member->process)) co_await erase(std::move(key));
  static_cast<void>(co_await refresh());
}

}  // namespace nimbus::cluster
