#pragma once
// Chooses the backend that the configuration names, and opens it.

#include "base/clock.h"
#include "base/metrics.h"
#include "base/result.h"
#include "server/config.h"
#include "store/store.h"

#include <memory>

namespace nimbus::server {

// `clock` must outlive the store, and the store `metrics`' last scrape.
Result<std::unique_ptr<store::Store>> openStore(const Config& config, const Clock& clock,
                                                Metrics& metrics);

}  // namespace nimbus::server
