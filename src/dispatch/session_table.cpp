#include "dispatch/session_table.h"

#include <algorithm>
#include <bit>
#include <new>
#include <thread>
#include <utility>

namespace nimbus::dispatch {

SessionTable::SessionTable(std::uint64_t seed, std::function<void(Session&)> forgotten)
    : seed_(seed), forgotten_(std::move(forgotten)) {}

SessionTable::~SessionTable() {
  for (Stripe& stripe : stripes_) {
    for (std::size_t i = 0; stripe.owned && i < stripe.owned->count(); ++i) {
      Session* session = stripe.owned->first[i].load(std::memory_order_relaxed);
      while (session != nullptr) {
        Session* const next = session->next_in_bucket.load(std::memory_order_relaxed);
        destroy(std::exchange(session, next));
      }
    }
    for (Session* const session : stripe.old_sessions) destroy(session);
  }
}

SessionTable::Visit::Visit(SessionTable& table, std::string_view name)
    : table_(table),
      name_(name),
      hash_(hashOf(name, table.seed_)),
      stripe_(table.stripeOf(hash_)),
      pin_(stripe_.pins) {}

Session* SessionTable::findIn(const Stripe& stripe, std::uint32_t hash, std::string_view name) {
  const Buckets* const buckets = stripe.buckets.load(std::memory_order_acquire);
  if (buckets == nullptr) return nullptr;
  Session* session = buckets->of(hash).load(std::memory_order_acquire);
  while (session != nullptr && (session->hash != hash || session->name() != name)) {
    session = session->next_in_bucket.load(std::memory_order_acquire);
  }
  return session;
}

Session* SessionTable::Visit::find() const {
  Session* const session = findIn(stripe_, shortHash(hash_), name_);
  // Marked after this visit began or before: who sweeps sees the visit, or the visit sees the mark.
  if (session == nullptr || session->retiring.load(std::memory_order_relaxed)) return nullptr;
  return session;
}

Session* SessionTable::Visit::findSurely() const {
  const std::lock_guard lock(stripe_.mutex);
  return find();
}

Session* SessionTable::Visit::obtain(const std::function<Worker*()>& place) const {
  const std::lock_guard lock(stripe_.mutex);
  if (Session* const found = find()) return found;
  Worker* const worker = place();
  if (worker == nullptr) return nullptr;
  Session* const session = make(name_, hash_, *worker);
  link(stripe_, *session);
  table_.size_.fetch_add(1);
  return session;
}

Session* SessionTable::make(std::string_view name, std::uint64_t hash, Worker& worker) {
  void* const memory = ::operator new(Session::sizeFor(name));
  Session* const session = Session::make(memory, name, shortHash(hash), worker);
  session->last_use.store(tickOf(Clock::now()), std::memory_order_relaxed);
  return session;
}

void SessionTable::destroy(Session* session) {
  session->~Session();
  ::operator delete(session);
}

void SessionTable::link(Stripe& stripe, Session& session) {
  ++stripe.size;
  resizeBuckets(stripe);
  Bucket& bucket = stripe.owned->of(session.hash);
  session.next_in_bucket.store(bucket.load(std::memory_order_relaxed), std::memory_order_relaxed);
  bucket.store(&session, std::memory_order_release);
}

void SessionTable::forget(Stripe& stripe, Session& session) {
  Bucket* link = &stripe.owned->of(session.hash);
  Session* seen = link->load(std::memory_order_relaxed);
  while (seen != &session) {
    link = &seen->next_in_bucket;
    seen = link->load(std::memory_order_relaxed);
  }
  link->store(session.next_in_bucket.load(std::memory_order_relaxed), std::memory_order_release);
  --stripe.size;
  size_.fetch_sub(1);
  forgotten_(session);
  stripe.old_sessions.push_back(&session);
}

// A visitor that walks a chain while its sessions are being put elsewhere may end up in another
// chain and miss what it looks for; it then asks again under the lock.
void SessionTable::resizeBuckets(Stripe& stripe) {
  const std::size_t current = stripe.owned ? stripe.owned->count() : 0;
  const std::size_t needed = stripe.size;
  if (needed <= current && (current <= kFirstBuckets || needed * 8 >= current)) return;
  const std::size_t wanted = std::max(kFirstBuckets, std::bit_ceil(needed));
  auto fresh = std::make_unique<const Buckets>(wanted);
  for (std::size_t i = 0; i < current; ++i) {
    Session* session = stripe.owned->first[i].load(std::memory_order_relaxed);
    while (session != nullptr) {
      Session* const next = session->next_in_bucket.load(std::memory_order_relaxed);
      Bucket& bucket = fresh->of(session->hash);
      session->next_in_bucket.store(bucket.load(std::memory_order_relaxed),
                                    std::memory_order_release);
      bucket.store(session, std::memory_order_relaxed);
      session = next;
    }
  }
  stripe.buckets.store(fresh.get(), std::memory_order_release);
  if (stripe.owned) stripe.old_buckets.push_back(std::move(stripe.owned));
  stripe.owned = std::move(fresh);
}

void SessionTable::freeUnseen(Stripe& stripe) {
  if (stripe.old_sessions.empty() && stripe.old_buckets.empty()) return;
  if (!stripe.pins.isQuiet()) return;
  for (Session* const session : std::exchange(stripe.old_sessions, {})) destroy(session);
  stripe.old_buckets.clear();
}

std::vector<Session*> SessionTable::allDue(const Stripe& stripe,
                                           const std::function<bool(const Session&)>& is_due) {
  std::vector<Session*> due;
  for (std::size_t i = 0; stripe.owned && i < stripe.owned->count(); ++i) {
    Session* session = stripe.owned->first[i].load(std::memory_order_relaxed);
    for (; session != nullptr; session = session->next_in_bucket.load(std::memory_order_relaxed)) {
      if (is_due(*session)) due.push_back(session);
    }
  }
  return due;
}

// First mark, then look for visits: one that began before is seen here, or has handed over all that
// it had; one that begins later sees the mark, and waits for the lock.
void SessionTable::sweep(const std::function<bool(const Session&)>& is_due,
                         const std::function<void(const std::vector<Session*>&)>& keep_needed) {
  const auto setAll = [](const std::vector<Session*>& sessions, bool retiring) {
    for (Session* const session : sessions) {
      session->retiring.store(retiring, std::memory_order_relaxed);
    }
  };
  for (Stripe& stripe : stripes_) {
    const std::lock_guard lock(stripe.mutex);
    if (const std::vector<Session*> due = allDue(stripe, is_due); !due.empty()) {
      setAll(due, true);
      if (stripe.pins.isQuiet()) {
        keep_needed(due);
      } else {
        setAll(due, false);
      }
      for (Session* const session : due) {
        if (session->retiring.load(std::memory_order_relaxed)) forget(stripe, *session);
      }
      resizeBuckets(stripe);
    }
    freeUnseen(stripe);
  }
}

void SessionTable::waitForVisits() {
  for (Stripe& stripe : stripes_) {
    while (!stripe.pins.isQuiet()) std::this_thread::yield();
  }
}

}  // namespace nimbus::dispatch
