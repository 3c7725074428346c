#pragma once
// Finds the route of a request.
//
// A path is split at '/' while still encoded, so an encoded '/' is data. Of two patterns that both
// fit, the one with a literal where the other has a parameter wins, from left to right. A pattern
// is chosen by its shape alone; only then are its parameters decoded and checked, so a malformed
// name is 400 and not 404.

#include "base/result.h"
#include "http/route.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::http {

// Routes are added before the server starts; after that any thread may match. Matching allocates
// only to decode percent-encoded parameters.
class Router {
 public:
  Router();
  ~Router();
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;
  Router(Router&&) noexcept;
  Router& operator=(Router&&) noexcept;

  // A pattern that is malformed, or taken, is a bug of ours and aborts. GET also answers HEAD.
  void add(Route route);

  // A schema that routes refer to as "#/components/schemas/<name>".
  void addSchema(std::string name, Schema schema);

  // Puts what `wrap` makes of it in the place of each route's handler. Before the server starts.
  void decorate(const std::function<Handler(const Route& route, Handler handler)>& wrap);

  struct Match {
    const Route* route = nullptr;  // null: see `allowed`
    // The methods the path has, "GET, HEAD, OPTIONS"; empty: there is no such path. Set only when
    // there is no route.
    std::string allowed = {};
  };

  // Fills request.parameters with views that stay valid as long as the request does. The error is
  // a parameter that does not fit its type.
  Result<Match> match(Request& request) const;

  const std::vector<std::unique_ptr<Route>>& routes() const { return routes_; }
  const std::vector<std::pair<std::string, Schema>>& schemas() const { return schemas_; }

 private:
  struct Entry;
  struct Node;
  struct Search;

  std::vector<std::unique_ptr<Route>> routes_;
  std::vector<std::pair<std::string, Schema>> schemas_;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::unique_ptr<Node> root_;
};

}  // namespace nimbus::http
