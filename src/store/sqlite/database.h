#pragma once
// SQLite as C++ sees it: connections, prepared statements, and errors as values. The only file,
// with its .cpp, that knows the library.

#include "base/clock.h"
#include "base/result.h"

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

struct sqlite3;
struct sqlite3_stmt;

namespace nimbus::store::sqlite {

// One connection, used by one thread at a time.
class Connection {
 public:
  enum class Mode { ReadOnly, ReadWrite };

  // `vfs`: the name of one that is registered; null: the system's.
  static Result<Connection> open(const std::filesystem::path& path, Mode mode,
                                 const char* vfs = nullptr);

  // Runs SQL that answers nothing.
  Result<> execute(const char* sql);

  // The first column of the first row.
  Result<std::int64_t> integer(const char* sql);
  Result<std::string> text(const char* sql);

  // How long SQLite waits for a lock before it answers Unavailable; 0 = not at all.
  void setBusyTimeout(Millis time);

  // Copies what is in the WAL into the database, as far as readers permit. Passive waits for
  // nobody, and leaves it to the next transaction to start the WAL anew if none stands in the way.
  // Truncate waits for readers, up to the busy timeout, and starts it anew itself.
  enum class Checkpoint { Passive, Truncate };
  struct Checkpointed {
    std::uint64_t frames_left = 0;  // not copied
    bool hindered = false;          // by others, who read or checkpoint
  };
  Result<Checkpointed> checkpoint(Checkpoint how);

  // The write-ahead log, as of the last transaction of this connection that wrote.
  struct Wal {
    std::uint64_t frames = 0;        // its length in pages
    std::uint64_t transactions = 0;  // that this connection has written
  };
  // Keeps `wal` up to date; it must outlive the connection.
  void follow(Wal& wal);

  bool inTransaction() const;

  sqlite3* handle() const { return handle_.get(); }

 private:
  struct Close {
    void operator()(sqlite3* handle) const;
  };
  explicit Connection(sqlite3* handle) : handle_(handle) {}

  std::unique_ptr<sqlite3, Close> handle_;
};

// The last error of the connection. A full disk is InsufficientStorage, a lock that did not come is
// Unavailable.
Error lastError(sqlite3* handle, std::string_view doing);

// Whether SQLite failed, as opposed to a batch having been refused.
bool isDatabaseError(const Error& error);

// An error after which nothing that this process believes about the file can be trusted: a failed
// write or fsync, a file that is damaged. The only safe way on is a new start.
bool isFatal(const Error& error);

// The error as callers may see it: what it means for them, and no SQL. The rest is for the log.
Error forCallers(const Error& error, Outcome outcome);

// Bound as text instead of a blob. What an index begins with is text: SQLite compares that by a
// short cut which it does not have for blobs.
struct Text {
  std::string_view bytes;
};

// A prepared statement. Arguments are bound in order; text must stay alive until the rows are gone.
class Statement {
 public:
  // A statement that does not compile is a bug of ours.
  Statement(Connection& connection, std::string_view sql);

  // For the first statements on a file that may turn out to be none of ours.
  static Result<Statement> prepare(Connection& connection, std::string_view sql);

  // The answers, row by row. The statement is free again when this is destroyed.
  class Rows {
   public:
    explicit Rows(sqlite3_stmt* statement) : statement_(statement) {}
    ~Rows();
    Rows(Rows&& other) noexcept : statement_(std::exchange(other.statement_, nullptr)) {}
    Rows(const Rows&) = delete;
    Rows& operator=(const Rows&) = delete;
    Rows& operator=(Rows&&) = delete;

    Result<bool> next();

    // Of the current row. Views are valid until next().
    std::int64_t integer(int column) const;
    std::uint64_t unsignedInteger(int column) const {
      return static_cast<std::uint64_t>(integer(column));
    }
    std::string_view bytes(int column) const;
    Timestamp time(int column) const { return Timestamp(Millis(integer(column))); }
    std::optional<Timestamp> optionalTime(int column) const;

   private:
    sqlite3_stmt* statement_;
  };

  template <typename... Args>
  Rows query(const Args&... args) {
    bindAll(args...);
    return Rows(statement_.get());
  }

  // For statements that change something: the number of rows changed.
  template <typename... Args>
  Result<std::uint64_t> run(const Args&... args) {
    bindAll(args...);
    return runBound();
  }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };

  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}

  template <typename... Args>
  void bindAll(const Args&... args) {
    // NOLINTNEXTLINE(misc-const-correctness): could be const only where there is nothing to bind
    int index = 0;
    (bind(++index, args), ...);
  }
  void bind(int index, std::string_view bytes);
  void bind(int index, Text text);
  void bind(int index, std::int64_t number);
  void bind(int index, std::nullptr_t);
  template <std::unsigned_integral T>
  void bind(int index, T number) {
    bind(index, static_cast<std::int64_t>(number));
  }
  void bind(int index, Timestamp time) {
    bind(index, static_cast<std::int64_t>(time.time_since_epoch().count()));
  }
  template <typename T>
  void bind(int index, const std::optional<T>& value) {
    if (value) {
      bind(index, *value);
    } else {
      bind(index, nullptr);
    }
  }
  Result<std::uint64_t> runBound();

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

}  // namespace nimbus::store::sqlite
