#pragma once
// The nodes that share a store: who is alive, and whose a session is.
//
// A node is a record with an expiry: its lease, by the store's clock, which it renews by
// heartbeats. A session's record names the node that owns it. While that node's lease holds others
// leave the session to it; when the lease has ended, or the node has left, whoever is proposed by
// the ring may claim it. None of this makes it safe: the version of the session's record does,
// which every commit requires and every claim moves. Leases decide who tries. docs/ownership.md has
// the argument.

#include "base/random.h"
#include "base/result.h"
#include "base/steady_clock.h"
#include "base/task.h"
#include "base/task_group.h"
#include "cluster/elsewhere.h"
#include "cluster/member.h"
#include "cluster/ring.h"
#include "store/store.h"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace nimbus::cluster {

// Who was alive at a moment.
struct View {
  std::string self;             // own key; empty: this node has no lease
  std::vector<Member> members;  // by key
  Ring ring;                    // of those that are not leaving
  std::vector<std::size_t> on_ring;

  const Member* find(std::string_view key) const;
  // The key of the node that the ring proposes; empty if there is none.
  std::string_view proposedFor(std::uint64_t point) const;
};
using ViewPtr = std::shared_ptr<const View>;

class Members {
 public:
  struct Options {
    std::string id;
    std::string version;
    // How long others wait for a node that they hear nothing of.
    Millis lease{5'000};
  };
  struct Figures {
    std::uint64_t sessions = 0;
    std::uint64_t instances = 0;
  };
  // All must outlive this; the random numbers be safe from any thread.
  struct Parts {
    store::Store& store;
    const SteadyClock& clock;
    Random& random;
  };

  Members(Options options, Parts parts, boost::asio::any_io_executor executor);
  ~Members();
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;

  // ---- on the executor

  // Before anything is owned: takes a lease. Whoever had the same id is no member from then on.
  // `address`: where other nodes reach this one; `url`: where clients do.
  Task<Result<>> join(std::string address, std::string url);
  // Begins to renew it. join() must have succeeded.
  void start();
  // One heartbeat: what start() does again and again.
  Task<Result<>> renewNow();
  // Others propose this node no more; what it owns is its own still.
  Task<> beginToLeave();
  // Gives the lease back: others may take everything over at once.
  Task<> leave();

  // Figures that others are told, and who hears of nodes that came or went. Before join().
  void tell(std::function<Figures()> figures) { figures_ = std::move(figures); }
  // On any thread; must not wait.
  void onChange(std::function<void(const View& before, const View& now)> changed);

  // ---- any thread

  ViewPtr view() const;
  // Own key; empty while there is no lease.
  std::string self() const;
  bool hasOthers() const { return has_others_.load(std::memory_order_relaxed); }
  // How often nodes came, went, or began to leave.
  std::uint64_t changes() const { return changes_.load(std::memory_order_relaxed); }
  bool isLeaving() const { return is_leaving_.load(std::memory_order_relaxed); }
  const Options& options() const { return options_; }
  // What nodes show each other; in the store, so that whoever has that is believed.
  const std::string& secret() const { return secret_; }
  Elsewhere& elsewhere() { return elsewhere_; }

  // Grows with every lease; 0 while there is none. What was claimed in another term is claimed
  // again before it is relied on.
  std::uint64_t term() const { return term_.load(std::memory_order_acquire); }
  // Whether nobody else can have claimed at `now` what this node has claimed in that term: the
  // lease holds, also if the clocks of the store and of this machine differ by a quarter of it.
  bool isSure(std::uint64_t term, SteadyTime now) const {
    return term != 0 && term == this->term() &&
           now.time_since_epoch().count() < sure_until_.load(std::memory_order_acquire);
  }

  // Where a session is served that was found to belong to `owner` (empty: to nobody).
  struct Place {
    bool is_here = false;  // and may be claimed, if it is another's: that one is gone
    std::string self;      // who claims it
    std::string owner;     // else: whom to ask
  };
  // Unavailable while this node has no lease, or the store does not say who is alive.
  Task<Result<Place>> place(std::string owner, std::uint64_t point);

  // Reads who is alive now.
  Task<Result<>> refresh();
  // Whether a node of that key was alive since this one joined.
  bool hasMet(const std::string& key) const;
  // The node does not answer: finds out whether it is gone.
  Task<> suspect(std::string key);

 private:
  static store::Partition partition();
  Task<Result<>> openSecret();
  // Takes a lease under a new key.
  Task<Result<>> enrol();
  Task<Result<>> renew();
  void lose();
  Task<> beat();
  // Removes nodes whose processes are gone.
  Task<> removeGone();
  Task<> erase(std::string key);
  Member own() const;
  void publish(std::uint64_t order, std::vector<Member> members);

  const Options options_;
  store::Store& store_;
  const SteadyClock& clock_;
  Random& random_;
  const ProcessIdentity process_ = ProcessIdentity::own();
  std::function<Figures()> figures_;
  std::vector<std::function<void(const View&, const View&)>> changed_;
  std::string secret_;
  Elsewhere elsewhere_;

  // On the executor.
  std::string address_;
  std::string url_;
  Timestamp started_at_;
  store::Version version_ = 0;  // of the own record
  boost::asio::steady_timer timer_;
  TaskGroup group_;

  std::atomic<bool> has_others_ = false;
  std::atomic<bool> is_leaving_ = false;
  std::atomic<std::uint64_t> term_ = 0;
  std::uint64_t terms_ = 0;  // that there were
  std::atomic<SteadyTime::rep> sure_until_ = 0;
  std::atomic<std::uint64_t> reads_ = 0;
  std::atomic<std::uint64_t> changes_ = 0;
  mutable std::mutex mutex_;
  std::string self_;                      // guarded, as is
  ViewPtr view_;                          // and
  std::uint64_t published_ = 0;           // the read that the view is of, and
  std::unordered_set<std::string> met_;   // keys that were there, and
  std::unordered_set<std::string> gone_;  // keys that are no more
};

}  // namespace nimbus::cluster
