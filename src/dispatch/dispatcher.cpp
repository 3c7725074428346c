#include "dispatch/core.h"

#include <nimbus/dispatch/dispatcher.h>

#include <utility>

namespace nimbus::dispatch {

Dispatcher::Dispatcher(DispatcherConfig config, Handler handler)
    : core_(std::make_shared<Core>(std::move(config), std::move(handler), nullptr)) {
  core_->start();
}

Dispatcher::Dispatcher(DispatcherConfig config, AsyncHandler handler)
    : core_(std::make_shared<Core>(std::move(config), nullptr, std::move(handler))) {
  core_->start();
}

Dispatcher::~Dispatcher() {
  shutdown();
}

void Dispatcher::onResult(ResultCallback callback) {
  core_->onResult(std::move(callback));
}

void Dispatcher::onError(ResultCallback callback) {
  core_->onError(std::move(callback));
}

SubmitStatus Dispatcher::submit(Task&& task) {
  return core_->submit(task, std::nullopt);
}

SubmitStatus Dispatcher::submit(const Task& task) {
  return submit(Task(task));
}

SubmitStatus Dispatcher::submit(Task&& task, Duration patience) {
  return core_->submit(task, patience);
}

std::vector<SubmitStatus> Dispatcher::submitBatch(std::vector<Task>&& tasks) {
  return core_->submitBatch(tasks);
}

std::vector<SubmitStatus> Dispatcher::submitBatch(const std::vector<Task>& tasks) {
  return submitBatch(std::vector<Task>(tasks));
}

std::optional<TaskResult> Dispatcher::result(std::string_view task_id) const {
  return core_->result(task_id);
}

std::optional<TaskResult> Dispatcher::wait(std::string_view task_id, Duration patience) const {
  return core_->wait(task_id, patience);
}

TaskStatus Dispatcher::status(std::string_view task_id) const {
  return core_->status(task_id);
}

bool Dispatcher::cancel(std::string_view task_id) {
  return core_->cancel(task_id);
}

void Dispatcher::pause(std::string_view session_id) {
  core_->pause(session_id);
}

void Dispatcher::resume(std::string_view session_id) {
  core_->resume(session_id);
}

bool Dispatcher::drain(std::string_view session_id, Duration patience) {
  return core_->drain(session_id, patience);
}

std::optional<SessionStats> Dispatcher::session(std::string_view session_id) const {
  return core_->session(session_id);
}

void Dispatcher::resize(std::size_t pool_size) {
  core_->resize(pool_size);
}

void Dispatcher::run(std::size_t worker) {
  core_->run(worker);
}

void Dispatcher::setQueueSize(std::size_t queue_size) {
  core_->setQueueSize(queue_size);
}

DispatcherStats Dispatcher::stats() const {
  return core_->stats();
}

ShutdownReport Dispatcher::shutdown() {
  return core_->shutdown(core_->config().shutdown_timeout);
}

ShutdownReport Dispatcher::shutdown(Duration patience) {
  return core_->shutdown(patience);
}

}  // namespace nimbus::dispatch
