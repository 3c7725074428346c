#pragma once
// Who did what, and who was not let in: GET /api/v1/audit.
//
// An administrative act is recorded with its outcome, durably, before its answer leaves. So is a
// refusal, as long as there are few; of a flood only the number is, a little later, so that it
// neither fills the disk nor slows anybody.

#include "base/metrics.h"
#include "base/steady_clock.h"
#include "base/task.h"
#include "base/task_group.h"
#include "gateway/audit_log.h"
#include "gateway/principal.h"
#include "gateway/refusal_budget.h"
#include "http/request.h"
#include "http/response.h"
#include "http/route.h"

#include <boost/asio/any_io_executor.hpp>

#include <optional>

namespace nimbus::http {
class Router;
}

namespace nimbus::gateway {

class Audit {
 public:
  // Works in the background on `executor`. Everything it is given must outlive it.
  Audit(AuditLog& log, const SteadyClock& clock, boost::asio::any_io_executor executor);

  void addTo(Metrics& metrics);
  void addRoutes(http::Router& router);
  // From now on what the routes do that are there is recorded, if it is administrative. Those of
  // data are not: calls, events, flows that are started.
  void watch(http::Router& router);

  // On `executor`.
  void start();
  Task<> stop();

  // The error is what the request is answered with; `principal` may be null. Any thread.
  Task<> refused(const http::Request& request, const http::Route& route, const Error& error,
                 const Principal* principal);

 private:
  Task<Result<http::Response>> list(http::Request& request);
  Task<Result<http::Response>> recorded(const http::Route& route, const http::Handler& handler,
                                        http::Request& request);
  Task<> writeCounts();
  Task<> writeCountsNowAndThen();

  AuditLog& log_;
  const SteadyClock& clock_;
  const boost::asio::any_io_executor executor_;
  TaskGroup tasks_;
  RefusalBudget budget_;
  std::optional<Counter> counted_;
};

}  // namespace nimbus::gateway
