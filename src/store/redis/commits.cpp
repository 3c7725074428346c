#include "store/redis/commits.h"

#include "redis/slot.h"
#include "store/redis/layout.h"
#include "store/rules.h"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <utility>

namespace nimbus::store::redis {

namespace asio = boost::asio;
using nimbus::redis::Command;
using nimbus::redis::slotOf;
using nimbus::redis::Value;

// One commit, from the call to its two answers.
class CommitTask final : public nimbus::redis::Request,
                         public CommitState,
                         public std::enable_shared_from_this<CommitTask> {
 public:
  CommitTask(Commits& commits, CommitOrder its_order)
      : CommitState(std::move(its_order.chained.listener)),
        order(std::move(its_order)),
        commits_(commits) {}

  void onAnswer(Result<Value> answer) override {
    commits_.onAnswer(shared_from_this(), std::move(answer));
  }
  void onConfirmed(const Result<>& confirmed) override {
    commits_.onConfirmed(shared_from_this(), confirmed);
  }

  void use(Encoded encoded) {
    script = encoded.script;
    bytes = std::move(encoded.bytes);
  }
  bool drops() const {
    return order.batch.operations.size() == 1 &&
           std::holds_alternative<op::DropPartition>(order.batch.operations.front());
  }

  CommitOrder order;
  enum class Phase : std::uint8_t { Listing, Committing, Finishing };
  Phase phase = Phase::Committing;
  std::size_t steps = 0;  // that must end before the next phase
  Result<> durable;
  std::optional<Error> listing_error;

 private:
  Commits& commits_;
};

// An entry of a directory on its way.
class Commits::Listed final : public nimbus::redis::Request {
 public:
  Listed(Commits& commits, TaskPtr task) : commits_(commits), task_(std::move(task)) {}
  void onAnswer(Result<Value> answer) override { commits_.onListed(task_, answer); }

 private:
  Commits& commits_;
  const TaskPtr task_;
};

// The question what a partition has.
class Commits::Fields final : public nimbus::redis::Request {
 public:
  Fields(Commits& commits, TaskPtr task) : commits_(commits), task_(std::move(task)) {}
  void onAnswer(Result<Value> answer) override { commits_.onFields(task_, answer); }

 private:
  Commits& commits_;
  const TaskPtr task_;
};

Commits::Commits(nimbus::redis::Client& client, asio::any_io_executor executor,
                 const Options& options)
    : client_(client),
      executor_(std::move(executor)),
      topology_(options.client.cluster ? Topology::Cluster : Topology::OneServer),
      wants_replicas_(options.client.connection.wait_replicas > 0),
      clock_(options.clock),
      max_waiting_(options.max_waiting) {}

ScriptTime Commits::scriptTime() const {
  return clock_ != nullptr ? timeText(clock_->now()) : ScriptTime();
}

PendingCommit Commits::begin(CommitOrder order) {
  const auto sound = validate(order.batch);
  auto task = std::make_shared<CommitTask>(*this, std::move(order));
  if (!sound) {
    task->refuse(sound.error());
    return PendingCommit(std::move(task));
  }
  if (waiting_.fetch_add(1) >= max_waiting_) {
    --waiting_;
    task->refuse(Error(Code::Unavailable, "too many commits wait for Redis"));
    return PendingCommit(std::move(task));
  }
  task->deadline = client_.deadline();
  task->wants_replicas = wants_replicas_;
  if (topology_ == Topology::Cluster) task->slot = slotOf(task->order.partition.name());
  if (isPuts(task->order.batch)) {
    task->use(encodePuts(task->order, scriptTime(), topology_));
  } else if (isAppends(task->order.batch)) {
    task->use(encodeAppends(task->order, scriptTime(), topology_));
  } else if (!task->drops()) {
    task->use(encodeBatch(task->order, scriptTime(), topology_, {}));
  }
  const std::lock_guard lock(mutex_);
  if (inbox_.empty()) asio::post(executor_, [this] { drain(); });
  inbox_.push_back(task);
  return PendingCommit(std::move(task));
}

void Commits::drain() {
  std::vector<TaskPtr> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks = std::exchange(inbox_, {});
  }
  for (TaskPtr& task : tasks) {
    const std::string& partition = task->order.partition.name();
    const auto [line, fresh] = lines_.try_emplace(partition);
    line->second.tasks.push_back(std::move(task));
    if (fresh) advance(line->first);
  }
}

void Commits::advance(const std::string& partition) {
  const auto line = lines_.find(partition);
  std::deque<TaskPtr>& tasks = line->second.tasks;
  while (!tasks.empty()) {
    if (start(tasks.front())) return;
    tasks.pop_front();
    --waiting_;
  }
  lines_.erase(line);
}

void Commits::end(const TaskPtr& task) {
  const auto line = lines_.find(task->order.partition.name());
  line->second.tasks.pop_front();
  --waiting_;
  advance(line->first);
}

bool Commits::start(const TaskPtr& task) {
  const auto after = std::exchange(task->order.chained.after, nullptr);
  if (after && after->hasFailed()) {
    task->refuse(chainBroken());
    return false;
  }
  if (std::chrono::steady_clock::now() > task->deadline) {
    ++failed_;
    task->refuse(Error(Code::Unavailable, "Redis did not answer earlier commits in time"));
    return false;
  }
  if (topology_ == Topology::Cluster) {
    task->phase = CommitTask::Phase::Listing;
    task->steps = sendListings(task, true);
    if (task->steps > 0) return true;
  }
  sendCommit(task);
  return true;
}

void Commits::sendCommit(const TaskPtr& task) {
  task->phase = CommitTask::Phase::Committing;
  if (task->bytes.empty()) {
    askForFields(task);
  } else {
    client_.send(task);
  }
}

// ---- dropping a partition: its keys must be declared, so somebody has to know them

void Commits::askForFields(const TaskPtr& task) {
  auto fields = std::make_shared<Fields>(*this, task);
  const std::string meta = metaKey(task->order.partition.name());
  fields->bytes = Command("HKEYS").add(meta).bytes();
  fields->slot = task->slot;
  fields->deadline = task->deadline;
  fields->repeatable = true;
  client_.send(fields);
}

void Commits::onFields(const TaskPtr& task, const Result<Value>& answer) {
  if (!answer) {
    fail(task, Error(answer.error().code(), answer.error().message(), Outcome::NotApplied));
    return;
  }
  task->use(encodeBatch(task->order, scriptTime(), topology_, containersOf(*answer)));
  client_.send(task);
}

// ---- directories on other nodes

std::size_t Commits::sendListings(const TaskPtr& task, bool sets) {
  std::size_t sent = 0;
  for (const Listing& listing : task->order.batch.listings) {
    if (listing.value.has_value() != sets) continue;
    auto listed = std::make_shared<Listed>(*this, task);
    Encoded encoded = encodeListing(listing);
    listed->script = encoded.script;
    listed->bytes = std::move(encoded.bytes);
    listed->slot = slotOf(directoryKeys(listing.directory).values);
    listed->deadline = task->deadline;
    listed->repeatable = true;
    client_.send(listed);
    ++sent;
  }
  return sent;
}

void Commits::onListed(const TaskPtr& task, const Result<Value>& answer) {
  if (task->phase == CommitTask::Phase::Finishing) {
    onStepDone(task);  // an entry that could not be removed stays; readers look before they believe
    return;
  }
  if (!answer) task->listing_error = answer.error();
  if (--task->steps > 0) return;
  if (task->listing_error) {
    const Error& error = *task->listing_error;
    fail(task, Error(error.code(), error.message(), Outcome::NotApplied));
  } else {
    sendCommit(task);
  }
}

// ---- answers

void Commits::onAnswer(const TaskPtr& task, Result<Value> answer) {
  if (!answer) {
    fail(task, answer.error());
    return;
  }
  Outcomes outcomes = decodeOutcomes(task->order, *answer);
  switch (outcomes.kind) {
    case Outcomes::Kind::Again:
      task->bytes.clear();
      askForFields(task);
      return;
    case Outcomes::Kind::Other:
      task->use(encodeBatch(task->order, scriptTime(), topology_, {}));
      client_.send(task);
      return;
    case Outcomes::Kind::Refused:
      task->refuse(*outcomes.error);
      end(task);
      return;
    case Outcomes::Kind::Applied:
      break;
  }
  ++commits_;
  task->apply(std::move(outcomes.applied));
  task->phase = CommitTask::Phase::Finishing;
  task->steps = 1;
  if (wants_replicas_) ++task->steps;
  if (topology_ == Topology::Cluster) task->steps += sendListings(task, false);
  onStepDone(task);
}

void Commits::onConfirmed(const TaskPtr& task, const Result<>& confirmed) {
  if (task->phase != CommitTask::Phase::Finishing) return;  // it was refused: nothing was written
  if (!confirmed) task->durable = confirmed;
  onStepDone(task);
}

void Commits::onStepDone(const TaskPtr& task) {
  if (--task->steps > 0) return;
  task->finish(task->durable);
  end(task);
}

void Commits::fail(const TaskPtr& task, const Error& error) {
  ++failed_;
  task->refuse(error);
  end(task);
}

}  // namespace nimbus::store::redis
