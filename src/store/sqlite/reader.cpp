#include "store/sqlite/reader.h"

#include "store/sqlite/journal.h"
#include "store/sqlite/log_table.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace nimbus::store::sqlite {
namespace {

constexpr std::int64_t kNoEnd = std::numeric_limits<std::int64_t>::max();

// The keys after `after` that begin with `prefix` are those from lower on and below upper.
struct KeyRange {
  std::string lower;
  std::optional<std::string> upper;  // absent = to the end

  // Directly behind a key, in the order of bytes, comes the key with a NUL appended. No key is
  // empty, so the header of a space, whose key is, never falls into a range.
  KeyRange(const std::string& after, const std::string& prefix)
      : lower(std::max(after + '\0', prefix)), upper(prefix) {
    // Directly behind all that begin with the prefix comes the prefix with its last byte raised.
    while (!upper->empty() && static_cast<unsigned char>(upper->back()) == 0xFF) upper->pop_back();
    if (upper->empty()) {
      upper.reset();
    } else {
      upper->back() = static_cast<char>(upper->back() + 1);
    }
  }
};

// Collects rows into a page. One row more than the limit was asked for, which tells whether there
// are more.
template <typename T, typename Read>
Result<Page<T>> collect(Statement::Rows rows, std::size_t limit, Read read) {
  Page<T> page;
  while (true) {
    NIMBUS_TRY(const bool found, rows.next());
    if (!found) return page;
    if (page.items.size() == limit) {
      page.more = true;
      return page;
    }
    page.items.push_back(read(rows));
  }
}

template <typename T, typename Read>
Result<std::optional<T>> collectOne(Statement::Rows rows, Read read) {
  NIMBUS_TRY(const bool found, rows.next());
  if (!found) return std::optional<T>();
  return std::optional<T>(read(rows));
}

// Ends a transaction that has only read, however it is left. There is nothing that could fail.
class EndOfSnapshot {
 public:
  explicit EndOfSnapshot(Connection& connection) : connection_(connection) {}
  ~EndOfSnapshot() { static_cast<void>(connection_.execute("END")); }
  EndOfSnapshot(const EndOfSnapshot&) = delete;
  EndOfSnapshot& operator=(const EndOfSnapshot&) = delete;

 private:
  Connection& connection_;
};

Entry readEntry(const Statement::Rows& rows) {
  return {.seq = rows.unsignedInteger(0),
          .id = std::string(rows.bytes(1)),
          .version = rows.unsignedInteger(2),
          .value = std::string(rows.bytes(5)),
          .fingerprint = std::string(rows.bytes(3)),
          .terms = unpackTerms(rows.bytes(4))};
}

IndexHit readHit(const Statement::Rows& rows) {
  return {std::string(rows.bytes(6)), readEntry(rows)};
}

QueueItem readItem(const Statement::Rows& rows) {
  return {.id = std::string(rows.bytes(0)),
          .part = static_cast<QueuePart>(rows.integer(1)),
          .position = rows.unsignedInteger(3),
          .payload = std::string(rows.bytes(7)),
          .due_at = rows.time(2),
          .not_before = rows.time(4),
          .attempts = static_cast<std::uint32_t>(rows.integer(5)),
          .reason = std::string(rows.bytes(6))};
}

DirectoryEntry readDirectoryEntry(const Statement::Rows& rows) {
  return {std::string(rows.bytes(0)), std::string(rows.bytes(1))};
}

#define NIMBUS_RECORD_COLUMNS "key, version, expires_at, updated_at, length(value)"
#define NIMBUS_ENTRY_COLUMNS \
  "entry.seq, entry.id, entry.version, entry.fingerprint, entry.terms, entry.value"
#define NIMBUS_ITEM_COLUMNS "id, part, due_at, position, not_before, attempts, reason, payload"
#define NIMBUS_LIVE "(expires_at IS NULL OR expires_at>?3)"

}  // namespace

struct Reader::Statements {
  explicit Statements(Connection& c)
      : get_record(c, "SELECT " NIMBUS_RECORD_COLUMNS
                      ", value FROM record WHERE partition=?1 AND space=?2 AND " NIMBUS_LIVE
                      " AND key=?4 AND key>x''"),
        scan_records(c, "SELECT " NIMBUS_RECORD_COLUMNS
                        ", iif(?6, value, NULL) FROM record WHERE partition=?1 AND space=?2"
                        " AND " NIMBUS_LIVE " AND key>=?4 ORDER BY key LIMIT ?5"),
        scan_record_range(c, "SELECT " NIMBUS_RECORD_COLUMNS
                             ", iif(?6, value, NULL) FROM record WHERE partition=?1 AND space=?2"
                             " AND " NIMBUS_LIVE " AND key>=?4 AND key<?7 ORDER BY key LIMIT ?5"),
        usage(c, "SELECT count(*) FILTER(WHERE key>x'' AND " NIMBUS_LIVE
                 "), coalesce(sum(length(value)) FILTER(WHERE key>x'' AND " NIMBUS_LIVE
                 "), 0), coalesce(max(version) FILTER(WHERE key=x'' OR expires_at<=?3), 0)"
                 " FROM record WHERE partition=?1 AND space=?2"),
        log_id(c, "SELECT id, last_seq, entries, revision FROM log WHERE partition=?1 AND name=?2"),
        get_entry(c, "SELECT " NIMBUS_ENTRY_COLUMNS " FROM entry WHERE log=?1 AND id=?2"),
        scan_log(c, "SELECT " NIMBUS_ENTRY_COLUMNS
                    " FROM entry WHERE log=?1 AND seq>=?2 AND seq<=?3 ORDER BY seq LIMIT ?4"),
        scan_log_back(c, "SELECT " NIMBUS_ENTRY_COLUMNS
                         " FROM entry WHERE log=?1 AND seq>=?2 AND seq<=?3"
                         " ORDER BY seq DESC LIMIT ?4"),
        scan_index(c, "SELECT " NIMBUS_ENTRY_COLUMNS
                      ", term.value FROM term JOIN entry"
                      " ON entry.log=term.log AND entry.seq=term.seq"
                      " WHERE term.log=?1 AND term.name=?2"
                      " AND (term.value, term.seq)>(?3, ?4) AND term.value<=?5"
                      " ORDER BY term.value, term.seq LIMIT ?6"),
        scan_index_back(c, "SELECT " NIMBUS_ENTRY_COLUMNS
                           ", term.value FROM term JOIN entry"
                           " ON entry.log=term.log AND entry.seq=term.seq"
                           " WHERE term.log=?1 AND term.name=?2"
                           " AND (term.value, term.seq)<(?3, ?4) AND term.value>=?5"
                           " ORDER BY term.value DESC, term.seq DESC LIMIT ?6"),
        get_lease(c,
                  "SELECT holder, epoch, nonce, expires_at FROM lease"
                  " WHERE partition=?1 AND name=?2 AND holder>x''"),
        queue_info(c,
                   "SELECT waiting, scheduled, parked FROM queue WHERE partition=?1 AND name=?2"),
        get_item(c, "SELECT " NIMBUS_ITEM_COLUMNS
                    " FROM item WHERE partition=?1 AND queue=?2 AND id=?3"),
        scan_queue(c, "SELECT " NIMBUS_ITEM_COLUMNS
                      " FROM item WHERE partition=?1 AND queue=?2 AND part=?3"
                      " AND (due_at, position)>(?4, ?5) ORDER BY due_at, position LIMIT ?6"),
        scan_directory(c,
                       "SELECT key, value FROM directory WHERE name=?1 AND key>=?2"
                       " ORDER BY key LIMIT ?3"),
        scan_directory_range(c,
                             "SELECT key, value FROM directory WHERE name=?1 AND key>=?2"
                             " AND key<?4 ORDER BY key LIMIT ?3"),
        journal_writer(c, "SELECT writer FROM journal ORDER BY page DESC LIMIT 1") {}

  Statement get_record;
  Statement scan_records;
  Statement scan_record_range;
  Statement usage;
  Statement log_id;
  Statement get_entry;
  Statement scan_log;
  Statement scan_log_back;
  Statement scan_index;
  Statement scan_index_back;
  Statement get_lease;
  Statement queue_info;
  Statement get_item;
  Statement scan_queue;
  Statement scan_directory;
  Statement scan_directory_range;
  Statement journal_writer;
};

#undef NIMBUS_RECORD_COLUMNS
#undef NIMBUS_ENTRY_COLUMNS
#undef NIMBUS_ITEM_COLUMNS
#undef NIMBUS_LIVE

// Answers one query. Text is bound by reference, so what is bound lives in the query or on the
// stack of the function that collects the rows.
struct Reader::Answering {
  Statements& statements;
  Text partition;
  Timestamp now;

  template <typename T>
  static Result<Answer> answer(Result<T> result) {
    NIMBUS_TRY(T value, std::move(result));
    return Answer(std::move(value));
  }

  static Record readRecord(const Statement::Rows& rows) {
    return {.key = std::string(rows.bytes(0)),
            .value = std::string(rows.bytes(5)),
            .size = rows.unsignedInteger(4),
            .version = rows.unsignedInteger(1),
            .expires_at = rows.optionalTime(2),
            .updated_at = rows.time(3)};
  }

  Result<Answer> operator()(const query::GetRecord& q) const {
    return answer(collectOne<Record>(statements.get_record.query(partition, q.space, now, q.key),
                                     readRecord));
  }
  Result<Answer> operator()(const query::ScanRecords& q) const {
    const KeyRange range(q.after, q.prefix);
    const std::int64_t with_values = q.values == Values::Include ? 1 : 0;
    auto rows = range.upper
                    ? statements.scan_record_range.query(partition, q.space, now, range.lower,
                                                         q.limit + 1, with_values, *range.upper)
                    : statements.scan_records.query(partition, q.space, now, range.lower,
                                                    q.limit + 1, with_values);
    return answer(collect<Record>(std::move(rows), q.limit, readRecord));
  }
  Result<Answer> operator()(const query::GetUsage& q) const {
    auto rows = statements.usage.query(partition, q.space, now);
    NIMBUS_CHECK(rows.next());
    return Answer(Usage{rows.unsignedInteger(0), rows.unsignedInteger(1), rows.unsignedInteger(2)});
  }

  // 0 is no log's id.
  Result<std::int64_t> logId(const std::string& log) const {
    auto rows = statements.log_id.query(partition, log);
    NIMBUS_TRY(const bool found, rows.next());
    return found ? rows.integer(0) : std::int64_t{0};
  }
  Result<Answer> operator()(const query::GetLogInfo& q) const {
    auto rows = statements.log_id.query(partition, q.log);
    NIMBUS_TRY(const bool found, rows.next());
    if (!found) return Answer(LogInfo{});
    return Answer(
        LogInfo{rows.unsignedInteger(1), rows.unsignedInteger(2), rows.unsignedInteger(3)});
  }
  Result<Answer> operator()(const query::GetEntry& q) const {
    NIMBUS_TRY(const std::int64_t log, logId(q.log));
    return answer(collectOne<Entry>(statements.get_entry.query(log, q.id), readEntry));
  }
  Result<Answer> operator()(const query::ScanLog& q) const {
    NIMBUS_TRY(const std::int64_t log, logId(q.log));
    Statement& scan = q.order == Order::Ascending ? statements.scan_log : statements.scan_log_back;
    return answer(collect<Entry>(scan.query(log, clamped(q.from), clamped(q.to), q.limit + 1),
                                 q.limit, readEntry));
  }
  Result<Answer> operator()(const query::ScanIndex& q) const {
    NIMBUS_TRY(const std::int64_t log, logId(q.log));
    if (q.order == Order::Ascending) {
      std::pair<std::string_view, std::int64_t> behind(q.first, -1);
      if (q.after) behind = std::max(behind, {q.after->term, clamped(q.after->seq)});
      return answer(
          collect<IndexHit>(statements.scan_index.query(log, q.index, behind.first, behind.second,
                                                        q.last, q.limit + 1),
                            q.limit, readHit));
    }
    std::pair<std::string_view, std::int64_t> behind(q.last, kNoEnd);
    if (q.after) behind = std::min(behind, {q.after->term, clamped(q.after->seq)});
    return answer(
        collect<IndexHit>(statements.scan_index_back.query(log, q.index, behind.first,
                                                           behind.second, q.first, q.limit + 1),
                          q.limit, readHit));
  }

  Result<Answer> operator()(const query::GetLease& q) const {
    const auto read = [](const Statement::Rows& rows) {
      return Lease{.holder = std::string(rows.bytes(0)),
                   .token = {rows.unsignedInteger(1), rows.unsignedInteger(2)},
                   .expires_at = rows.optionalTime(3)};
    };
    return answer(collectOne<Lease>(statements.get_lease.query(partition, q.lease), read));
  }

  Result<Answer> operator()(const query::GetQueueInfo& q) const {
    auto rows = statements.queue_info.query(partition, q.queue);
    NIMBUS_TRY(const bool found, rows.next());
    if (!found) return Answer(QueueInfo{});
    return Answer(
        QueueInfo{rows.unsignedInteger(0), rows.unsignedInteger(1), rows.unsignedInteger(2)});
  }
  Result<Answer> operator()(const query::GetItem& q) const {
    return answer(
        collectOne<QueueItem>(statements.get_item.query(partition, q.queue, q.id), readItem));
  }
  Result<Answer> operator()(const query::ScanQueue& q) const {
    Timestamp due_at = Timestamp::min();
    Seq position = 0;
    if (q.after) {
      due_at = q.part == QueuePart::Scheduled ? q.after->due_at : Timestamp();
      position = q.after->position;
    }
    return answer(collect<QueueItem>(
        statements.scan_queue.query(partition, q.queue, static_cast<std::int64_t>(q.part), due_at,
                                    position, q.limit + 1),
        q.limit, readItem));
  }
};

Reader::Reader(Connection connection)
    : connection_(std::move(connection)), statements_(std::make_shared<Statements>(connection_)) {}

Result<std::unique_ptr<Reader>> Reader::open(const std::filesystem::path& path) {
  NIMBUS_TRY(Connection connection, Connection::open(path, Connection::Mode::ReadOnly));
  return std::unique_ptr<Reader>(new Reader(std::move(connection)));
}

Result<std::vector<Answer>> Reader::read(std::string_view partition,
                                         const std::vector<Query>& queries, Timestamp now) {
  // The transaction is the snapshot: a question about a log alone takes two statements.
  NIMBUS_CHECK(connection_.execute("BEGIN"));
  const EndOfSnapshot end(connection_);
  return answerAll(partition, queries, now);
}

Result<std::optional<std::vector<Answer>>> Reader::read(std::string_view partition,
                                                        const std::vector<Query>& queries,
                                                        Timestamp now, std::int64_t writer) {
  NIMBUS_CHECK(connection_.execute("BEGIN"));
  const EndOfSnapshot end(connection_);
  {
    auto rows = statements_->journal_writer.query();
    NIMBUS_TRY(const bool found, rows.next());
    if (found && rows.integer(0) != writer) return std::optional<std::vector<Answer>>();
  }
  NIMBUS_TRY(auto answers, answerAll(partition, queries, now));
  return std::optional(std::move(answers));
}

Result<std::vector<Answer>> Reader::readReplayed(std::string_view partition,
                                                 const std::vector<Query>& queries, Timestamp now) {
  NIMBUS_CHECK(connection_.execute("PRAGMA temp_store=MEMORY"));
  NIMBUS_CHECK(connection_.execute("BEGIN"));
  const EndOfSnapshot end(connection_);
  // A table of the connection's own hides the one of the file from our statements.
  NIMBUS_CHECK(
      connection_.execute("CREATE TEMP TABLE record AS SELECT * FROM main.record LIMIT 0"));
  NIMBUS_CHECK(
      connection_.execute("CREATE UNIQUE INDEX temp.record_key"
                          " ON record(partition, space, key)"));
  Result<std::vector<Answer>> answers = [&]() -> Result<std::vector<Answer>> {
    NIMBUS_CHECK(copyReplayed(partition));
    return answerAll(partition, queries, now);
  }();
  NIMBUS_CHECK(connection_.execute("DROP TABLE temp.record"));
  return answers;
}

Result<> Reader::copyReplayed(std::string_view partition) {
  Statement copy(connection_,
                 "INSERT INTO temp.record SELECT * FROM main.record WHERE partition=?1");
  NIMBUS_CHECK(copy.run(Text{partition}));
  DeferredRows deferred;
  {
    Statement pages(connection_, "SELECT entries FROM journal ORDER BY page");
    auto rows = pages.query();
    while (true) {
      NIMBUS_TRY(const bool more, rows.next());
      if (!more) break;
      deferred.replay(rows.bytes(0), partition);
    }
  }
  Statement put(connection_,
                "INSERT OR REPLACE INTO temp.record(partition, space, key, version, expires_at,"
                " updated_at, sweep_at, value) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");
  return deferred.putAll([&](const RecordRow& row) -> Result<> {
    NIMBUS_CHECK(put.run(Text{row.partition}, row.space, row.key, row.version, row.expires_at,
                         row.updated_at, row.sweep_at, row.value));
    return {};
  });
}

Result<std::vector<Answer>> Reader::answerAll(std::string_view partition,
                                              const std::vector<Query>& queries, Timestamp now) {
  std::vector<Answer> answers;
  answers.reserve(queries.size());
  const Answering answering{*statements_, Text{partition}, now};
  for (const Query& query : queries) {
    NIMBUS_TRY(Answer answer, std::visit(answering, query));
    answers.push_back(std::move(answer));
  }
  return answers;
}

Result<DirectoryPage> Reader::readDirectory(std::string_view directory, const std::string& after,
                                            const std::string& prefix, std::size_t limit) {
  const KeyRange range(after, prefix);
  auto rows = range.upper
                  ? statements_->scan_directory_range.query(Text{directory}, range.lower, limit + 1,
                                                            *range.upper)
                  : statements_->scan_directory.query(Text{directory}, range.lower, limit + 1);
  return collect<DirectoryEntry>(std::move(rows), limit, readDirectoryEntry);
}

}  // namespace nimbus::store::sqlite
