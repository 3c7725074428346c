#include "store/sqlite/database.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <utility>

namespace nimbus::store::sqlite {
namespace {

// How long SQLite itself waits for a lock. Our writers queue at the turnstile and never meet here;
// this is for foreign tools and for recovery. Callers are promised an answer within 5 s.
constexpr Millis kBusyTimeout(3000);

// The field that marks errors of SQLite.
constexpr std::string_view kCodeField = "sqlite_code";

// Once per process, before the first connection. The statistics cost a global lock per allocation.
void configureLibrary() {
  static const int kConfigured = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  static_cast<void>(kConfigured);
}

}  // namespace

void Connection::Close::operator()(sqlite3* handle) const {
  sqlite3_close_v2(handle);
}

void Statement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

Error lastError(sqlite3* handle, std::string_view doing) {
  const int extended = sqlite3_extended_errcode(handle);
  const auto code = [&] {
    switch (extended & 0xFF) {
      case SQLITE_FULL:
        return Code::InsufficientStorage;
      case SQLITE_BUSY:
      case SQLITE_LOCKED:
      case SQLITE_PROTOCOL:
      case SQLITE_NOMEM:
      case SQLITE_INTERRUPT:
        return Code::Unavailable;
      default:
        return Code::Internal;
    }
  }();
  return Error(code,
               fmt::format("{}: {} (SQLite code {})", doing, sqlite3_errmsg(handle), extended))
      .with(kCodeField, std::int64_t{extended});
}

bool isDatabaseError(const Error& error) {
  return error.field(kCodeField, SQLITE_OK) != SQLITE_OK;
}

bool isFatal(const Error& error) {
  switch (error.field(kCodeField, SQLITE_OK) & 0xFF) {
    case SQLITE_IOERR:
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return true;
    default:
      return false;
  }
}

Error forCallers(const Error& error, Outcome outcome) {
  if (!isDatabaseError(error)) return {error.code(), error.message(), outcome};
  switch (error.code()) {
    case Code::InsufficientStorage:
      return {error.code(), "the disk that holds the data is full", outcome};
    case Code::Unavailable:
      return {error.code(), "the database is locked, or there is too little memory", outcome};
    default:
      return {error.code(), "the database failed; the server's log says how", outcome};
  }
}

Result<Connection> Connection::open(const std::filesystem::path& path, Mode mode, const char* vfs) {
  configureLibrary();
  const int flags =
      (mode == Mode::ReadOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) |
      SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE;
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags, vfs);
  Connection connection(raw);
  if (code != SQLITE_OK) {
    return Error(Code::Unavailable,
                 fmt::format("cannot open {}: {}", path.string(),
                             raw != nullptr ? sqlite3_errmsg(raw) : sqlite3_errstr(code)));
  }
  connection.setBusyTimeout(kBusyTimeout);
  // Only the writer checkpoints, when it chooses to: a checkpoint in another connection, or by
  // whoever happens to close last, could run beside a writer of another process.
  sqlite3_db_config(raw, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  sqlite3_wal_autocheckpoint(raw, 0);
  return connection;
}

Result<> Connection::execute(const char* sql) {
  if (sqlite3_exec(handle(), sql, nullptr, nullptr, nullptr) == SQLITE_OK) return {};
  return lastError(handle(), sql);
}

namespace {

// One ad-hoc statement whose first row is wanted.
Result<Statement::Rows> firstRow(Statement& statement, const char* sql) {
  auto rows = statement.query();
  NIMBUS_TRY(const bool found, rows.next());
  if (!found) return Error(Code::Internal, fmt::format("{}: no answer", sql));
  return rows;
}

}  // namespace

Result<std::int64_t> Connection::integer(const char* sql) {
  NIMBUS_TRY(Statement statement, Statement::prepare(*this, sql));
  NIMBUS_TRY(auto rows, firstRow(statement, sql));
  return rows.integer(0);
}

Result<std::string> Connection::text(const char* sql) {
  NIMBUS_TRY(Statement statement, Statement::prepare(*this, sql));
  NIMBUS_TRY(auto rows, firstRow(statement, sql));
  return std::string(rows.bytes(0));
}

void Connection::setBusyTimeout(Millis time) {
  sqlite3_busy_timeout(handle(), static_cast<int>(time.count()));
}

Result<Connection::Checkpointed> Connection::checkpoint(Checkpoint how) {
  int in_log = 0;
  int copied = 0;
  const int mode =
      how == Checkpoint::Truncate ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE;
  const int code = sqlite3_wal_checkpoint_v2(handle(), nullptr, mode, &in_log, &copied);
  const bool hindered = (code & 0xFF) == SQLITE_BUSY;
  if (code != SQLITE_OK && !hindered) return lastError(handle(), "checkpoint");
  // -1 means that there is no WAL yet.
  const int left = std::max(0, in_log - copied);
  return Checkpointed{static_cast<std::uint64_t>(left), hindered};
}

void Connection::follow(Wal& wal) {
  const auto note = [](void* followed, sqlite3*, const char*, int frames) {
    Wal& wal = *static_cast<Wal*>(followed);
    wal.frames = static_cast<std::uint64_t>(frames);
    ++wal.transactions;
    return SQLITE_OK;
  };
  sqlite3_wal_hook(handle(), note, &wal);
}

bool Connection::inTransaction() const {
  return sqlite3_get_autocommit(handle()) == 0;
}

Result<Statement> Statement::prepare(Connection& connection, std::string_view sql) {
  sqlite3_stmt* raw = nullptr;
  const int code = sqlite3_prepare_v3(connection.handle(), sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &raw, nullptr);
  if (code != SQLITE_OK) return lastError(connection.handle(), sql);
  return Statement(raw);
}

Statement::Statement(Connection& connection, std::string_view sql) {
  auto prepared = prepare(connection, sql);
  NIMBUS_ASSERT(prepared, sqlite3_errmsg(connection.handle()));
  statement_ = std::move(prepared->statement_);
}

void Statement::bind(int index, std::string_view bytes) {
  // An empty view may have no address, and SQLite reads that as NULL.
  const char* const data = bytes.data() != nullptr ? bytes.data() : "";
  sqlite3_bind_blob64(statement_.get(), index, data, bytes.size(), SQLITE_STATIC);
}

void Statement::bind(int index, Text text) {
  const char* const data = text.bytes.data() != nullptr ? text.bytes.data() : "";
  sqlite3_bind_text64(statement_.get(), index, data, text.bytes.size(), SQLITE_STATIC, SQLITE_UTF8);
}

void Statement::bind(int index, std::int64_t number) {
  sqlite3_bind_int64(statement_.get(), index, number);
}

void Statement::bind(int index, std::nullptr_t) {
  sqlite3_bind_null(statement_.get(), index);
}

Result<std::uint64_t> Statement::runBound() {
  sqlite3_stmt* const statement = statement_.get();
  const int code = sqlite3_step(statement);
  sqlite3* const handle = sqlite3_db_handle(statement);
  if (code == SQLITE_DONE) {
    sqlite3_reset(statement);
    return static_cast<std::uint64_t>(sqlite3_changes64(handle));
  }
  Error error = lastError(handle, sqlite3_sql(statement));
  sqlite3_reset(statement);
  return error;
}

Statement::Rows::~Rows() {
  if (statement_ != nullptr) sqlite3_reset(statement_);
}

Result<bool> Statement::Rows::next() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return lastError(sqlite3_db_handle(statement_), sqlite3_sql(statement_));
}

std::int64_t Statement::Rows::integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}

std::string_view Statement::Rows::bytes(int column) const {
  const auto* const data = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column));
  return data == nullptr ? std::string_view() : std::string_view(data, size);
}

std::optional<Timestamp> Statement::Rows::optionalTime(int column) const {
  if (sqlite3_column_type(statement_, column) == SQLITE_NULL) return std::nullopt;
  return time(column);
}

}  // namespace nimbus::store::sqlite
