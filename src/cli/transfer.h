#pragma once
// What a server holds, as lines of text, and back: functions with their code and what they keep in
// function scope, sessions with their state, events and waiting calls, event logs of apps. Keys,
// devices and the audit log belong to the server they are on.
//
// The first line says what it is, the last how many there were, so that a part of it is known as
// one. Documents of sessions and logs have checksums of their own.

#include "cli/remote.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace nimbus::cli {

// Takes a line, without its end; false: no more is wanted.
using LineSink = std::function<bool(const std::string& line)>;

// Of one function only its sessions; without one, everything. False: it could not be had, and the
// reader knows why.
bool exportLines(Remote& remote, const std::optional<std::string>& function, const LineSink& sink);

class LineImport {
 public:
  struct Options {
    // Sessions go to this function, whatever theirs was.
    std::optional<std::string> function;
    // What is there already is left as it is; else that is an error.
    bool skips_existing = false;
  };

  LineImport(Remote& remote, Options options) : remote_(remote), options_(std::move(options)) {}

  // False: it cannot be, and the reader knows why.
  bool take(const std::string& line);
  // Whether the last line was there.
  bool isComplete() const { return is_complete_; }
  std::size_t taken() const { return taken_; }
  std::size_t skipped() const { return skipped_; }

 private:
  bool send(const client::Request& request, bool may_exist);

  Remote& remote_;
  const Options options_;
  std::size_t lines_ = 0;
  std::size_t taken_ = 0;
  std::size_t skipped_ = 0;
  bool is_complete_ = false;
};

}  // namespace nimbus::cli
