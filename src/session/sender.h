#pragma once
// Hands over what the calls of a function have sent: from the outbox of their line to the line it
// is for; see outbox.h.
//
// Single-threaded, like the FunctionHost it belongs to.

#include "base/result.h"
#include "base/task.h"
#include "base/task_group.h"
#include "session/activation.h"
#include "session/line_host.h"
#include "session/node.h"
#include "session/outbox.h"
#include "store/types.h"

#include <boost/asio/any_io_executor.hpp>

#include <string>
#include <unordered_set>

namespace nimbus::session {

class Sender {
 public:
  class Lines {
   public:
    virtual ~Lines() = default;
    virtual Task<Result<ActivationPtr>> active(std::string key) = 0;
    // Whether all that was begun up to now has become durable.
    virtual Task<Result<>> durable(ActivationPtr activation) = 0;
  };

  Sender(Node& node, std::string function_id, const boost::asio::any_io_executor& executor,
         LineHost& host, Lines& lines);

  // There may be something in the outbox of that line.
  void deliver(const std::string& key);
  // Whether its outbox is being emptied.
  bool isBusy(const std::string& key) const { return sending_.contains(key); }
  Task<> stop();

 private:
  Task<> handOver(std::string key);
  Task<Result<bool>> handOverSome(ActivationPtr activation);
  Task<Result<>> handOverOne(store::QueueItem item);
  Task<Result<>> keepUnreceived(Delivery delivery);

  Node& node_;
  const std::string function_id_;
  const boost::asio::any_io_executor executor_;
  LineHost& host_;
  Lines& lines_;
  std::unordered_set<std::string> sending_;  // lines whose outbox is being emptied
  TaskGroup group_;
};

}  // namespace nimbus::session
