#pragma once
// Threads that sleep are woken once for all that was brought to them in one go.
//
// Who hands many things to another thread, one by one, wakes it with the first: it begins with that
// alone, and the rest waits until it is done. Where that costs an fsync, whoever runs many tasks in
// a row opens a WakeTogether around them.

#include <vector>

namespace nimbus {

class Sleeper {
 public:
  virtual ~Sleeper() = default;
  virtual void wake() = 0;
};

// While one of these lives on a thread, sleepers that are to be woken from there are woken when it
// ends. They do not nest.
class WakeTogether {
 public:
  WakeTogether();
  ~WakeTogether();
  WakeTogether(const WakeTogether&) = delete;
  WakeTogether& operator=(const WakeTogether&) = delete;

  // At once if there is none on this thread. The sleeper must outlive the one that there is.
  static void wake(Sleeper& sleeper);

 private:
  std::vector<Sleeper*> sleepers_;
};

}  // namespace nimbus
