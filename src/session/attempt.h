#pragma once
// One attempt at an asynchronous call: decides, when it is known how it ended, what becomes of the
// call, in one commit with what the attempt wrote.

#include "base/clock.h"
#include "session/call.h"
#include "session/invocation_record.h"
#include "session/line_host.h"
#include "session/node.h"
#include "store/batch.h"

#include <cstdint>
#include <string>

namespace nimbus::session {

class Attempt final : public CallJournal {
 public:
  enum class Decision : std::uint8_t { None, Over, Again, Failed, Parked, Held };

  Attempt(Node& node, const LineHost& host, std::string id, InvocationRecord record);

  void addTo(store::Batch& batch, const Call& call) override;

  Decision decision() const { return decision_; }
  const InvocationRecord& record() const { return record_; }
  Timestamp notBefore() const { return not_before_; }

 private:
  // Not if it ended because the server does: the next one runs it. What it wrote before that is
  // committed with the end of the attempt, or not at all.
  bool isItsOwn(const Call& call) const;
  void end(store::Batch& batch, Timestamp now);
  // Its function says itself that it has failed: another attempt would not help.
  void fail(store::Batch& batch, Timestamp now);
  void giveUp(store::Batch& batch, const Call& call, Timestamp now);
  void putAside(store::Batch& batch, Timestamp now, std::string reason);

  Node& node_;
  const LineHost& host_;
  const std::string id_;
  InvocationRecord record_;
  Timestamp not_before_;
  Decision decision_ = Decision::None;
};

}  // namespace nimbus::session
