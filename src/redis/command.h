#pragma once
// A command as it is sent, and the script it may run.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nimbus::redis {

// Arguments that are known before the command they belong to.
class Arguments {
 public:
  void add(std::string_view argument);
  void add(std::int64_t number);

 private:
  friend class Command;
  std::string bytes_;
  std::size_t count_ = 0;
};

class Command {
 public:
  explicit Command(std::string_view name) { arguments_.add(name); }

  Command& add(std::string_view argument);
  Command& add(std::int64_t number);
  Command& add(const Arguments& arguments);
  std::string bytes() const;

 private:
  Arguments arguments_;
};

// A Lua script. EVALSHA names it; a server that does not know it yet is given it once.
class Script {
 public:
  explicit Script(std::string body);

  const std::string& body() const { return body_; }
  const std::string& sha1() const { return sha1_; }

 private:
  std::string body_;
  std::string sha1_;
};

}  // namespace nimbus::redis
