#include "redis/command.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <charconv>

namespace nimbus::redis {
namespace {

void addNumber(std::string& out, std::int64_t number) {
  std::array<char, 24> digits{};
  const auto [end, failure] = std::to_chars(digits.begin(), digits.end(), number);
  out.append(digits.begin(), end);
}

}  // namespace

void Arguments::add(std::string_view argument) {
  bytes_ += '$';
  addNumber(bytes_, static_cast<std::int64_t>(argument.size()));
  bytes_ += "\r\n";
  bytes_ += argument;
  bytes_ += "\r\n";
  ++count_;
}

void Arguments::add(std::int64_t number) {
  std::array<char, 24> digits{};
  const auto [end, failure] = std::to_chars(digits.begin(), digits.end(), number);
  add(std::string_view(digits.begin(), end));
}

Command& Command::add(std::string_view argument) {
  arguments_.add(argument);
  return *this;
}

Command& Command::add(std::int64_t number) {
  arguments_.add(number);
  return *this;
}

Command& Command::add(const Arguments& arguments) {
  arguments_.bytes_ += arguments.bytes_;
  arguments_.count_ += arguments.count_;
  return *this;
}

std::string Command::bytes() const {
  std::string whole;
  whole.reserve(arguments_.bytes_.size() + 16);
  whole += '*';
  addNumber(whole, static_cast<std::int64_t>(arguments_.count_));
  whole += "\r\n";
  whole += arguments_.bytes_;
  return whole;
}

Script::Script(std::string body) : body_(std::move(body)) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_Digest(body_.data(), body_.size(), digest.data(), &size, EVP_sha1(), nullptr);
  for (unsigned int i = 0; i < size; ++i) sha1_ += fmt::format("{:02x}", digest.at(i));
}

}  // namespace nimbus::redis
