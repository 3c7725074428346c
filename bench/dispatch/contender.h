#pragma once
// What is compared: something that runs a small task under the name of a session, in order per
// session, on a fixed number of threads.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::bench {

using Names = std::vector<std::string>;

// All of them run the same task: it counts.
struct Counter {
  alignas(64) std::atomic<std::uint64_t> done = 0;
};

class Contender {
 public:
  virtual ~Contender() = default;

  // Called by one thread. Each finds the session by its name: the others keep a plain
  // std::unordered_map for that, filled beforehand and without a lock, which is the best they can
  // have and more than they would have with several submitting threads.
  virtual void submit(const std::string& session) = 0;
};

std::unique_ptr<Contender> makeDispatcher(unsigned workers, const Names& names, Counter& counter);
std::unique_ptr<Contender> makeNamedDispatcher(unsigned workers, const Names& names,
                                               Counter& counter);
std::unique_ptr<Contender> makeStrands(unsigned workers, const Names& names, Counter& counter);
std::unique_ptr<Contender> makeTbbQueues(unsigned workers, const Names& names, Counter& counter);
std::unique_ptr<Contender> makeCafActors(unsigned workers, const Names& names, Counter& counter);

}  // namespace nimbus::bench
