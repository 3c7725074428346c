#include "dispatch/session_table.h"

#include <algorithm>
#include <bit>
#include <thread>
#include <utility>

namespace nimbus::dispatch {

SessionTable::SessionTable(std::uint64_t seed, std::function<void(Session&)> forgotten)
    : seed_(seed), forgotten_(std::move(forgotten)) {}

SessionTable::~SessionTable() {
  for (Stripe& stripe : stripes_) {
    forEachIn(stripe, [this](Session& session) { store_.free(session); });
    for (Session* const session : stripe.old_sessions) store_.free(*session);
  }
}

template <typename Look>
void SessionTable::forEachIn(const Stripe& stripe, Look&& look) const {
  for (std::size_t i = 0; stripe.owned && i < stripe.owned->count(); ++i) {
    const std::uint32_t entry = stripe.owned->own(static_cast<std::uint32_t>(i)).load();
    if (entry != 0) look(*store_.at(Slots::number(entry)));
  }
}

SessionTable::Visit::Visit(SessionTable& table, std::string_view name)
    : table_(table),
      name_(name),
      hash_(hashOf(name, table.seed_)),
      stripe_(table.stripeOf(hash_)),
      pin_(stripe_.pins) {
  const Slots* const slots = stripe_.slots.load(std::memory_order_acquire);
  if (slots != nullptr) __builtin_prefetch(&slots->own(shortHash(hash_)));
}

void SessionTable::Visit::prefetch() const {
  table_.search(stripe_, shortHash(hash_), [](const Session* session) {
    __builtin_prefetch(session);
    return true;
  });
}

// Asks `is_it` for each session that may be the one with this hash, until it says yes.
template <typename IsIt>
Session* SessionTable::search(const Stripe& stripe, std::uint32_t hash, IsIt&& is_it) const {
  const Slots* const slots = stripe.slots.load(std::memory_order_acquire);
  if (slots == nullptr) return nullptr;
  Slots::Slot* slot = &slots->own(hash);
  // Not more than all around: while others make changes there may be no free slot to end at.
  for (std::size_t left = slots->count(); left > 0; --left) {
    const std::uint32_t entry = slot->load(std::memory_order_acquire);
    if (entry == 0) return nullptr;
    if (Slots::isLike(entry, hash)) {
      Session* const session = store_.at(Slots::number(entry));
      if (is_it(session)) return session;
    }
    slot = &slots->after(*slot);
  }
  return nullptr;
}

Session* SessionTable::Visit::find() const {
  Session* const session =
      table_.search(stripe_, shortHash(hash_), [this](const Session* candidate) {
        return candidate->hash == shortHash(hash_) && candidate->name() == name_;
      });
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
  Session& session = table_.store_.make(name_, shortHash(hash_), *worker);
  session.last_use.store(tickOf(Clock::now()), std::memory_order_relaxed);
  ++stripe_.size;
  table_.resizeSlots(stripe_);
  enter(*stripe_.owned, session);
  table_.size_.fetch_add(1);
  return &session;
}

void SessionTable::enter(const Slots& slots, const Session& session) {
  Slots::Slot* slot = &slots.own(session.hash);
  while (slot->load(std::memory_order_relaxed) != 0) slot = &slots.after(*slot);
  slot->store(Slots::entry(session), std::memory_order_release);
}

SessionTable::Slots::Slot& SessionTable::slotOf(const Stripe& stripe, const Session& session) {
  Slots::Slot* slot = &stripe.owned->own(session.hash);
  while (slot->load(std::memory_order_relaxed) != Slots::entry(session)) {
    slot = &stripe.owned->after(*slot);
  }
  return *slot;
}

// Those behind it that stand too far from their own slot move up. A visitor may miss one that
// moves; it then asks again under the lock.
void SessionTable::clear(const Slots& slots, Slots::Slot& slot) const {
  Slots::Slot* free = &slot;
  for (Slots::Slot* next = &slots.after(slot); next->load() != 0; next = &slots.after(*next)) {
    const std::uint32_t entry = next->load(std::memory_order_relaxed);
    if (!slots.mayMove(store_.at(Slots::number(entry))->hash, *next, *free)) continue;
    free->store(entry, std::memory_order_release);
    free = next;
  }
  free->store(0, std::memory_order_release);
}

void SessionTable::forget(Stripe& stripe, Session& session) {
  clear(*stripe.owned, slotOf(stripe, session));
  stripe.old_sessions.push_back(&session);
  --stripe.size;
  size_.fetch_sub(1);
  forgotten_(session);
}

// An idle session is made again where it takes less room; it keeps its worker.
void SessionTable::relocate(Stripe& stripe, Session& session) {
  Session& moved = store_.make(session.name(), session.hash, *session.worker);
  moved.last_use.store(session.last_use.load(std::memory_order_relaxed), std::memory_order_relaxed);
  slotOf(stripe, session).store(Slots::entry(moved), std::memory_order_release);
  stripe.old_sessions.push_back(&session);
}

// At most seven eighths of the slots are taken, and not much less than one.
void SessionTable::resizeSlots(Stripe& stripe) {
  const std::size_t current = stripe.owned ? stripe.owned->count() : 0;
  const std::size_t needed = stripe.size + stripe.size / 7 + 1;
  if (needed <= current && (current <= kFewestSlots || needed * 8 >= current)) return;
  auto fresh = std::make_unique<const Slots>(std::max(kFewestSlots, std::bit_ceil(needed)));
  forEachIn(stripe, [&](const Session& session) { enter(*fresh, session); });
  stripe.slots.store(fresh.get(), std::memory_order_release);
  if (stripe.owned) stripe.old_slots.push_back(std::move(stripe.owned));
  stripe.owned = std::move(fresh);
}

void SessionTable::freeUnseen(Stripe& stripe) {
  if (stripe.old_sessions.empty() && stripe.old_slots.empty()) return;
  if (!stripe.pins.becomesQuiet()) return;
  for (Session* const session : std::exchange(stripe.old_sessions, {})) store_.free(*session);
  stripe.old_slots.clear();
}

// First mark, then look for visits: one that began before is seen here, or has handed over all that
// it had; one that begins later sees the mark, and waits for the lock.
std::size_t SessionTable::sweep(
    const std::function<bool(const Session&)>& is_due,
    const std::function<void(const std::vector<Session*>&)>& keep_needed) {
  std::size_t forgotten = 0;
  const auto mark = [](Session* session, bool retiring) {
    session->retiring.store(retiring, std::memory_order_relaxed);
  };
  for (Stripe& stripe : stripes_) {
    const std::lock_guard lock(stripe.mutex);
    std::vector<Session*> marked;
    forEachIn(stripe, [&](Session& session) {
      if (is_due(session) || store_.isFarOut(session)) marked.push_back(&session);
    });
    if (!marked.empty()) {
      for (Session* const session : marked) mark(session, true);
      if (stripe.pins.becomesQuiet()) {
        keep_needed(marked);
      } else {
        for (Session* const session : marked) mark(session, false);
      }
      for (Session* const session : marked) {
        if (!session->retiring.load(std::memory_order_relaxed)) continue;
        if (is_due(*session)) {
          forget(stripe, *session);
          ++forgotten;
        } else {
          relocate(stripe, *session);
        }
      }
      resizeSlots(stripe);
    }
    freeUnseen(stripe);
  }
  return forgotten;
}

void SessionTable::waitForVisits() {
  for (Stripe& stripe : stripes_) {
    while (!stripe.pins.isQuiet()) std::this_thread::yield();
  }
}

}  // namespace nimbus::dispatch
