#pragma once
// Tells when something in a directory, however deep, has changed.

#include "base/clock.h"
#include "base/result.h"

#include <filesystem>
#include <map>
#include <set>

namespace nimbus::cli {

// Left out: what no code is in (.git, node_modules, __pycache__, .nimbus), and what editors leave
// beside a file while it is written.
class Watcher {
 public:
  static Result<Watcher> open(const std::filesystem::path& directory);

  Watcher(Watcher&& other) noexcept;
  Watcher& operator=(Watcher&&) = delete;
  ~Watcher();

  // Readable when there is something to read.
  int descriptor() const { return inotify_; }

  // The files and directories that have changed, once nothing more has for `quiet`: a program that
  // saves writes several times. Empty if nothing of interest did. Waits no longer than `most`.
  std::set<std::filesystem::path> changes(Millis quiet, Millis most);

 private:
  explicit Watcher(int inotify) : inotify_(inotify) {}
  void add(const std::filesystem::path& directory);
  void read(std::set<std::filesystem::path>& changed);

  int inotify_;
  std::map<int, std::filesystem::path> directories_;  // by watch
};

}  // namespace nimbus::cli
