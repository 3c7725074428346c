#include "base/testing/temporary_directory.h"
#include "store/sqlite/sqlite_store.h"
#include "suites.h"

namespace nimbus::store::conformance {
namespace {

class SqliteUnderTest final : public StoreUnderTest {
 public:
  explicit SqliteUnderTest(const Clock& clock) : clock_(clock), store_(openFile()) {}

  Store& store() override { return *store_; }
  bool reopen() override {
    store_.reset();
    store_ = openFile();
    return true;
  }
  std::unique_ptr<Store> openSecond() override { return openFile(); }

 private:
  // What the suite asks for is not durability: that is tests/faults' business, and an fsync per
  // case would make thousands of schedules take minutes.
  std::unique_ptr<sqlite::SqliteStore> openFile() {
    sqlite::Options options;
    options.path = directory_.path() / "nimbus.db";
    options.synchronous = sqlite::Synchronous::Off;
    options.writer.sweep_grain = Millis(1);
    // So little that a few commits fill it, and no wait for other processes to be quiet: rows then
    // come and go by every way there is.
    options.writer.journal = {.max_bytes = 2048, .quiet_transactions = 0};
    auto opened = sqlite::SqliteStore::open(std::move(options), clock_);
    NIMBUS_ASSERT(opened, "a temporary directory can hold a database");
    return *std::move(opened);
  }

  const Clock& clock_;
  TemporaryDirectory directory_;
  std::unique_ptr<sqlite::SqliteStore> store_;
};

Backend sqliteBackend() {
  return {"sqlite", [](const Clock& clock) { return std::make_unique<SqliteUnderTest>(clock); }};
}

NIMBUS_CONFORMANCE(Sqlite, sqliteBackend());

}  // namespace
}  // namespace nimbus::store::conformance
