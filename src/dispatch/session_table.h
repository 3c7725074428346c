#pragma once
// All active sessions by name. Finding one takes no lock; beginning and forgetting one locks a
// stripe of the table.

#include "dispatch/hash.h"
#include "dispatch/pins.h"
#include "dispatch/session.h"

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

    std::string_view name() const { return name_; }
    std::uint64_t hash() const { return hash_; }

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
  // must stay for another reason.
  void sweep(const std::function<bool(const Session&)>& is_due,
             const std::function<void(const std::vector<Session*>&)>& keep_needed);

  // Waits until every visit that had begun before has ended.
  void waitForVisits();

 private:
  static constexpr std::size_t kStripes = 256;
  static constexpr std::size_t kFirstBuckets = 4;

  using Bucket = std::atomic<Session*>;

  struct Buckets {
    explicit Buckets(std::size_t count) : mask(count - 1), first(new Bucket[count]()) {}

    Bucket& of(std::uint32_t hash) const { return first[hash & mask]; }
    std::size_t count() const { return mask + 1; }

    const std::size_t mask;
    const std::unique_ptr<Bucket[]> first;
  };

  struct alignas(kCacheLine) Stripe {
    PinCounter pins;
    std::atomic<const Buckets*> buckets = nullptr;

    // Whoever changes something.
    std::mutex mutex;
    std::size_t size = 0;
    std::unique_ptr<const Buckets> owned;
    std::vector<Session*> old_sessions;  // unlinked; a visitor may still look at them
    std::vector<std::unique_ptr<const Buckets>> old_buckets;
  };

  static std::uint32_t shortHash(std::uint64_t hash) { return static_cast<std::uint32_t>(hash); }
  static Session* findIn(const Stripe& stripe, std::uint32_t hash, std::string_view name);
  static void link(Stripe& stripe, Session& session);
  static std::vector<Session*> allDue(const Stripe& stripe,
                                      const std::function<bool(const Session&)>& is_due);
  void forget(Stripe& stripe, Session& session);
  static void resizeBuckets(Stripe& stripe);
  static void freeUnseen(Stripe& stripe);
  static Session* make(std::string_view name, std::uint64_t hash, Worker& worker);
  static void destroy(Session* session);
  Stripe& stripeOf(std::uint64_t hash) { return stripes_[hash >> 56U]; }

  const std::uint64_t seed_;
  const std::function<void(Session&)> forgotten_;
  std::atomic<std::size_t> size_ = 0;
  std::array<Stripe, kStripes> stripes_;
};

}  // namespace nimbus::dispatch
