#include "store/memory/memory_store.h"
#include "suites.h"

namespace nimbus::store::conformance {
namespace {

class MemoryUnderTest final : public StoreUnderTest {
 public:
  explicit MemoryUnderTest(const Clock& clock) : store_(clock) {}
  Store& store() override { return store_; }

 private:
  memory::MemoryStore store_;
};

Backend memoryBackend() {
  return {"memory", [](const Clock& clock) { return std::make_unique<MemoryUnderTest>(clock); }};
}

NIMBUS_CONFORMANCE(Memory, memoryBackend());

}  // namespace
}  // namespace nimbus::store::conformance
