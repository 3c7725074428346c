#pragma once
// Cells: where processes run that are to see nothing of the host and of each other.
//
// A cell is a set of namespaces (users, mounts, processes, network, ipc, host name, control groups)
// with a read-only system, a private /tmp and nothing else in it. It is made before it is needed
// and for nobody in particular: the code of a function is mounted into it later, by its first
// process, also when the processes that are to run it are there already.
//
// docs/security.md says what that keeps out and what not, docs/adr/0009-isolation.md why so.

#include "base/result.h"
#include "base/task.h"
#include "runtime/keeper.h"

#include <cstddef>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace nimbus::runtime {

// Where in a cell the code of the function is, the program that was built from it, and packages.
inline constexpr std::string_view kCodePlace = "/code";
inline constexpr std::string_view kNativePlace = "/native";
inline constexpr std::string_view kDependenciesPlace = "/.dependencies";

struct CodeMount {
  std::string path;   // in the folder of all code
  std::string place;  // in the cell
};

// One cell. All that is in it ends when this is destroyed.
class Cell {
 public:
  Cell() = default;
  Cell(Descriptor control, std::vector<Descriptor> namespaces)
      : control_(std::move(control)), namespaces_(std::move(namespaces)) {}

  Task<Result<>> mount(std::vector<CodeMount> mounts);

  // For whoever is to start a process in it.
  std::span<const Descriptor> namespaces() const { return namespaces_; }
  // Nobody is to start any more: closes them.
  void complete() { namespaces_.clear(); }

  // Ends the cell, soon, if all its processes together have more bytes of memory.
  void checkMemory(std::size_t limit) const;
  // Why it has ended by itself; empty if it has not.
  std::string lastWords() const;

  void end() { *this = Cell(); }

 private:
  Descriptor control_;
  std::vector<Descriptor> namespaces_;
};

// Any thread may use any member.
class Cells {
 public:
  // `keeper` must outlive this.
  Cells(Keeper& keeper, CellContents contents, std::size_t spare)
      : keeper_(keeper), contents_(std::move(contents)), spare_(spare) {}

  // One that nobody uses yet. Unavailable, with what could not be done, if this machine has none.
  Task<Result<Cell>> take(Network network);

  Keeper& keeper() const { return keeper_; }
  const std::string& code() const { return contents_.code; }

 private:
  Task<Result<Cell>> make(Network network);
  Task<> refill();

  Keeper& keeper_;
  const CellContents contents_;
  const std::size_t spare_;
  std::mutex mutex_;
  std::vector<Cell> ready_;  // without network
  std::size_t making_ = 0;
};

// Whether processes can be run in cells here, found out by doing it: the program must exit with 0.
Task<Result<>> tryCell(Cells& cells, Command command);

}  // namespace nimbus::runtime
