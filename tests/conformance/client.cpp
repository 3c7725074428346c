#include "client.h"

#include <fmt/format.h>

#include <stdexcept>

namespace nimbus::store::conformance {
namespace {

void collectTerms(Names& names, const std::vector<Term>& terms) {
  for (const Term& term : terms) names.indexes.insert(term.index);
}

}  // namespace

void Names::collect(const Batch& batch) {
  const auto collect = [this](const auto& part) {
    if constexpr (requires { part.space; }) spaces.insert(part.space);
    if constexpr (requires { part.log; }) logs.insert(part.log);
    if constexpr (requires { part.terms; }) collectTerms(*this, part.terms);
    if constexpr (requires { part.lease; }) leases.insert(part.lease);
    if constexpr (requires { part.queue; }) queues.insert(part.queue);
  };
  for (const Condition& condition : batch.conditions) std::visit(collect, condition);
  for (const Operation& operation : batch.operations) std::visit(collect, operation);
}

std::vector<Query> everything(const Names& names) {
  std::vector<Query> queries;
  for (const std::string& space : names.spaces) {
    queries.emplace_back(query::GetUsage{space});
    queries.emplace_back(
        query::ScanRecords{.space = space, .after = {}, .prefix = {}, .limit = kMaxPage});
  }
  for (const std::string& log : names.logs) {
    queries.emplace_back(query::GetLogInfo{log});
    queries.emplace_back(query::ScanLog{.log = log, .limit = kMaxPage});
    for (const std::string& index : names.indexes) {
      queries.emplace_back(query::ScanIndex{.log = log,
                                            .index = index,
                                            .first = {},
                                            .last = std::string(kMaxNameBytes + 1, '\xff'),
                                            .after = {},
                                            .limit = kMaxPage});
    }
  }
  for (const std::string& lease : names.leases) queries.emplace_back(query::GetLease{lease});
  for (const std::string& queue : names.queues) {
    queries.emplace_back(query::GetQueueInfo{queue});
    for (const auto part : {QueuePart::Line, QueuePart::Scheduled, QueuePart::Parked}) {
      queries.emplace_back(
          query::ScanQueue{.queue = queue, .part = part, .after = {}, .limit = kMaxPage});
    }
  }
  return queries;
}

PendingCommit Client::begin(Batch batch, std::optional<Fence> fence) {
  names_.collect(batch);
  return store_->commit(partition_, std::move(fence), std::move(batch));
}

Applied Client::applied(Batch batch, std::optional<Fence> fence) {
  auto result = tryCommit(std::move(batch), std::move(fence));
  if (!result) {
    throw std::runtime_error("refused: " + text(result.error()) + ": " + result.error().message());
  }
  return *std::move(result);
}

Error Client::refusal(Batch batch, std::optional<Fence> fence) {
  names_.collect(batch);
  const std::string before = dump();
  auto result = tryCommit(std::move(batch), std::move(fence));
  if (result) throw std::runtime_error("applied, though it was to be refused");
  EXPECT_EQ(outcomeName(result.error().outcome()), outcomeName(Outcome::NotApplied));
  EXPECT_EQ(dump(), before) << "a refused batch changed something";
  return std::move(result).error();
}

std::vector<Answer> Client::read(std::vector<Query> queries) {
  auto answers = tryRead(std::move(queries));
  if (!answers) throw std::runtime_error("not read: " + answers.error().message());
  return *std::move(answers);
}

std::string Client::readError(Query query) {
  std::vector<Query> queries;
  queries.push_back(std::move(query));
  const auto answers = tryRead(std::move(queries));
  return answers ? "answered" : text(answers.error());
}

std::string Client::value(std::string space, std::string key) {
  const auto record = get(std::move(space), std::move(key));
  return record ? record->value : "(nothing)";
}

Version Client::version(std::string space, std::string key) {
  const auto record = get(std::move(space), std::move(key));
  return record ? record->version : 0;
}

std::vector<std::string> Client::keys(query::ScanRecords query) {
  std::vector<std::string> keys;
  for (Record& record : ask<RecordPage>(std::move(query)).items) keys.push_back(record.key);
  return keys;
}

std::vector<Seq> Client::seqs(std::string log) {
  std::vector<Seq> seqs;
  const query::ScanLog all{.log = std::move(log), .limit = kMaxPage};
  for (const Entry& entry : ask<EntryPage>(all).items) seqs.push_back(entry.seq);
  return seqs;
}

std::vector<std::string> Client::under(query::ScanIndex query) {
  std::vector<std::string> found;
  for (const IndexHit& hit : ask<IndexPage>(std::move(query)).items) {
    found.push_back(fmt::format("{}#{}", hit.term, hit.entry.seq));
  }
  return found;
}

std::vector<std::string> Client::under(std::string log, std::string index, std::string term) {
  return under({.log = std::move(log),
                .index = std::move(index),
                .first = term,
                .last = term,
                .after = {},
                .limit = kMaxPage});
}

std::vector<std::string> Client::ids(std::string queue, QueuePart part) {
  std::vector<std::string> ids;
  const query::ScanQueue all{
      .queue = std::move(queue), .part = part, .after = {}, .limit = kMaxPage};
  for (const QueueItem& item : ask<ItemPage>(all).items) ids.push_back(item.id);
  return ids;
}

DirectoryPage Client::directory(std::string directory, std::string after, std::string prefix,
                                std::size_t limit) {
  auto page = tryDirectory(std::move(directory), std::move(after), std::move(prefix), limit);
  if (!page) throw std::runtime_error("not read: " + page.error().message());
  return *std::move(page);
}

std::vector<std::string> Client::listed(std::string name) {
  std::vector<std::string> entries;
  for (const DirectoryEntry& entry : directory(std::move(name), "", "", kMaxPage).items) {
    entries.push_back(entry.key + "=" + entry.value);
  }
  return entries;
}

std::string Client::dump() {
  std::string out;
  for (const Answer& answer : read(everything(names_))) out += text(answer) + "\n";
  return out;
}

Swept Client::sweep(Millis budget) {
  const auto swept = runner_.run(store_->sweep(budget));
  if (!swept) throw std::runtime_error("not swept: " + swept.error().message());
  return *swept;
}

std::uint64_t Client::sweepAll(Millis budget) {
  std::uint64_t all = 0;
  while (true) {
    const Swept swept = sweep(budget);
    all += swept.removed;
    if (!swept.more) return all;
  }
}

}  // namespace nimbus::store::conformance
