#pragma once
// Requests about a session that another node owns go there, and its answer comes back as if it were
// this node's.
//
// A handler that finds out that the session is elsewhere has done nothing and says so
// (cluster::movedTo). The request is then sent to the owner, who carries it out or says who is the
// owner now; it never sends it on. So a request crosses at most one border at a time, and whoever
// it came to first decides how often to try.

#include "base/metrics.h"
#include "base/result.h"
#include "base/steady_clock.h"
#include "base/task.h"
#include "cluster/members.h"
#include "cluster/moved.h"
#include "cluster/peers.h"
#include "gateway/principal.h"
#include "http/request.h"
#include "http/response.h"
#include "http/route.h"
#include "session/call.h"
#include "state/operation.h"

#include <optional>
#include <string>
#include <string_view>

namespace nimbus::http {
class Router;
}

namespace nimbus::gateway {

class Forwarding {
 public:
  // All must outlive it.
  struct Parts {
    cluster::Members& members;
    cluster::Peers& peers;
    const SteadyClock& clock;
  };
  struct Options {
    // How long a request may wait for its session to have an owner who answers.
    Millis patience{15'000};
  };

  Forwarding(Parts parts, Options options);

  void addTo(Metrics& metrics);
  // From now on the routes that are there and concern one session are forwarded.
  void watch(http::Router& router);

  // Who owns a session, by the owner that its record names; nothing if it is this node, or nobody
  // who is alive.
  std::optional<cluster::Moved> ownerElsewhere(const std::string& owner,
                                               std::string_view function_id,
                                               std::string_view session_key) const;

  // Asks the owner of a session something on behalf of whoever made the request, as a request of
  // its own. Unavailable if it does not answer.
  struct Errand {
    std::string_view method;
    std::string target;
    std::string body = {};
  };
  Task<Result<cluster::PeerAnswer>> ask(const cluster::Moved& moved, const http::Request& request,
                                        Errand errand);

  // Has the other nodes look who is alive, so that they know at once that this one leaves, or has
  // left. Returns when they have, or that time has passed.
  Task<> tellOthers(Millis patience);

  // Has an operation of a stateless call carried out by the node that owns its session.
  Task<Result<state::Answer>> operate(cluster::Moved moved, session::CallPtr call);

  // Hands a call that a function has sent to the node that owns its receiver.
  Task<Result<std::uint64_t>> handOver(cluster::Moved moved, session::CallPtr call, Millis delay);

 private:
  Task<> tell(std::string address);
  Task<Result<http::Response>> serve(const http::Handler& handler, http::Request& request);
  Task<Result<http::Response>> serveForwarded(const http::Handler& handler, http::Request& request);
  Task<Result<http::Response>> serveElsewhere(const http::Handler& handler, http::Request& request,
                                              cluster::Moved moved);
  // Nothing: the node is not the owner, or cannot be asked; another may be by now.
  Task<Result<std::optional<cluster::PeerAnswer>>> tryOwner(const cluster::Moved& moved,
                                                            std::string bytes);
  std::string headOf(std::string_view method, std::string_view target, const Principal& principal,
                     std::string_view request_id) const;

  const Parts parts_;
  const Options options_;
  std::optional<Counter> forwarded_;
  std::optional<Counter> misdirected_;
  std::optional<Counter> failed_;
};

}  // namespace nimbus::gateway
