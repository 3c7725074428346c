#pragma once
// What the dispatcher says about itself, as operators see it.

#include "base/metrics.h"

#include <nimbus/dispatch/stats.h>

namespace nimbus::session {

void exposeDispatch(Metrics::Scrape& scrape, const dispatch::DispatcherStats& stats);

}  // namespace nimbus::session
