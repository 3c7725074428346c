#pragma once
// What a backend provides to be put through the suite.

#include "base/clock.h"
#include "store/store.h"

#include <functional>
#include <memory>
#include <ostream>
#include <string>

namespace nimbus::store::conformance {

// A store with data of its own, empty at first and gone at the end.
class StoreUnderTest {
 public:
  virtual ~StoreUnderTest() = default;

  virtual Store& store() = 0;

  // Closes the store and opens it again on the same data; store() is another one then. False if the
  // data does not outlive the store: tests then leave that part out.
  virtual bool reopen() { return false; }

  // Another store on the same data, as another process would open it. Null if there can be none.
  virtual std::unique_ptr<Store> openSecond() { return nullptr; }
};

struct Backend {
  std::string name;
  // `clock` outlives what is opened. A store with a clock of its own (Redis) has to be told to go
  // by this one.
  std::function<std::unique_ptr<StoreUnderTest>(const Clock& clock)> open;
};

inline void PrintTo(const Backend& backend, std::ostream* out) {
  *out << backend.name;
}

}  // namespace nimbus::store::conformance
