#pragma once
// Which sessions other nodes were found to own, so that a call of one need not look again. It may
// be wrong: whoever is asked and is not the owner says so, and then it is forgotten.

#include <array>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace nimbus::cluster {

// Any thread.
class Elsewhere {
 public:
  // The key of the node.
  std::optional<std::string> find(std::string_view function_id, std::string_view session_key) const;
  void remember(std::string_view function_id, std::string_view session_key, std::string owner);
  void forget(std::string_view function_id, std::string_view session_key);
  void clear();

 private:
  static constexpr std::size_t kParts = 16;
  // When one is full it is emptied: what is needed is found again.
  static constexpr std::size_t kMostInPart = 16'384;

  struct Part {
    std::mutex mutex;
    std::unordered_map<std::string, std::string> owners;  // guarded
  };
  Part& partOf(const std::string& name) const;

  mutable std::array<Part, kParts> parts_;
};

}  // namespace nimbus::cluster
