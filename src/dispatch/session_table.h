#pragma once
// All active sessions by name. Finding one takes no lock; beginning and forgetting one locks a
// stripe of the table.

#include "dispatch/hash.h"
#include "dispatch/pins.h"
#include "dispatch/session_store.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace nimbus::dispatch {

class SessionTable {
  struct Stripe;

 public:
  // `forgotten` is called with each session that is, once nobody can enter it any more.
  SessionTable(std::uint64_t seed, std::function<void(Session&)> forgotten);
  ~SessionTable();
  SessionTable(const SessionTable&) = delete;
  SessionTable& operator=(const SessionTable&) = delete;

  // A session found through a visit is not forgotten before the visit ends.
  class Visit {
   public:
    Visit(SessionTable& table, std::string_view name);

    std::uint64_t hash() const { return hash_; }
    std::string_view name() const { return name_; }

    // The name lies elsewhere from now on.
    void moveName(std::string_view name) { name_ = name; }

    // Looking for a session is waiting for memory, twice: for the slot, which is asked for when
    // the visit begins, and for the session, which this asks for. Meanwhile there is other work to
    // do.
    void prefetch() const;

    // Null if it is not there, and in rare cases if it is: obtain() knows.
    Session* find() const;

    // The session; if there is none, a new one on the worker that `place` names. Null if that names
    // none.
    Session* obtain(const std::function<Worker*()>& place) const;

    // The session, found under the lock.
    Session* findSurely() const;

   private:
    SessionTable& table_;
    std::string_view name_;
    std::uint64_t hash_;
    Stripe& stripe_;
    Pin pin_;
  };

  // In one order with the changes of the size, whoever makes them.
  std::size_t size() const { return size_.load(); }

  // Forgets sessions. `is_due` proposes them. When it is certain that nobody is about to hand one
  // of them a task, `keep_needed` takes the mark (Session::retiring) from those that have tasks or
  // must stay for another reason. Says how many were forgotten.
  std::size_t sweep(const std::function<bool(const Session&)>& is_due,
                    const std::function<void(const std::vector<Session*>&)>& keep_needed);

  // Waits until every visit that had begun before has ended.
  void waitForVisits();

 private:
  static constexpr std::size_t kStripes = 256;
  static constexpr std::size_t kFewestSlots = 4;

  // Open addressing: a session stands in the first slot from its own on that was free. Next to its
  // number there is a little of its hash, so that others are rarely looked at.
  class Slots {
   public:
    using Slot = std::atomic<std::uint32_t>;

    explicit Slots(std::size_t count) : mask_(count - 1), first_(new Slot[count]()) {}

    std::size_t count() const { return mask_ + 1; }
    Slot& own(std::uint32_t hash) const { return first_[hash & mask_]; }
    Slot& after(const Slot& slot) const {
      return first_[(static_cast<std::size_t>(&slot - first_.get()) + 1) & mask_];
    }
    // Whether a session with this hash that stands in `at` may stand in `free`, which is before it.
    bool mayMove(std::uint32_t hash, const Slot& at, const Slot& free) const {
      const auto from = static_cast<std::size_t>(&at - first_.get());
      const auto to = static_cast<std::size_t>(&free - first_.get());
      return ((from - hash) & mask_) >= ((from - to) & mask_);
    }

    static std::uint32_t entry(const Session& session) {
      return session.number | (session.hash & kTag);
    }
    static bool isLike(std::uint32_t entry, std::uint32_t hash) {
      return ((entry ^ hash) & kTag) == 0;
    }
    static SessionNumber number(std::uint32_t entry) { return entry & ~kTag; }

   private:
    static constexpr std::uint32_t kTag = ~(SessionStore::kMostSessions - 1);

    const std::size_t mask_;
    const std::unique_ptr<Slot[]> first_;
  };

  struct alignas(kCacheLine) Stripe {
    PinCounter pins;
    std::atomic<const Slots*> slots = nullptr;

    // Whoever changes something.
    std::mutex mutex;
    std::size_t size = 0;
    std::unique_ptr<const Slots> owned;
    std::vector<Session*> old_sessions;  // unlinked; a visitor may still look at them
    std::vector<std::unique_ptr<const Slots>> old_slots;
  };

  static std::uint32_t shortHash(std::uint64_t hash) { return static_cast<std::uint32_t>(hash); }
  template <typename IsIt>
  Session* search(const Stripe& stripe, std::uint32_t hash, IsIt&& is_it) const;
  static void enter(const Slots& slots, const Session& session);
  static Slots::Slot& slotOf(const Stripe& stripe, const Session& session);
  void clear(const Slots& slots, Slots::Slot& slot) const;
  void relocate(Stripe& stripe, Session& session);
  void forget(Stripe& stripe, Session& session);
  void resizeSlots(Stripe& stripe);
  void freeUnseen(Stripe& stripe);
  template <typename Look>
  void forEachIn(const Stripe& stripe, Look&& look) const;
  Stripe& stripeOf(std::uint64_t hash) { return stripes_[hash >> 56U]; }

  const std::uint64_t seed_;
  const std::function<void(Session&)> forgotten_;
  std::atomic<std::size_t> size_ = 0;
  SessionStore store_;
  std::array<Stripe, kStripes> stripes_;
};

}  // namespace nimbus::dispatch
