#pragma once
// A client that sends exactly the bytes it is given and shows what comes back.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nimbus::http {

struct RawAnswer {
  std::string header(std::string_view name) const {
    for (const auto& [key, value] : headers) {
      if (key == name) return value;
    }
    return "";
  }

  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  // names as sent
  std::string body;
};

// Blocking. Nothing waits longer than kPatience, which only a failing test ever does.
class RawClient {
 public:
  static constexpr std::chrono::milliseconds kPatience{20'000};
  enum class Ended { Closed, Reset, StillOpen };

  // Not connected yet.
  RawClient() {
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  explicit RawClient(std::uint16_t port, int receive_buffer = 0) : RawClient() {
    if (receive_buffer > 0) {
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    connect(port);
  }
  ~RawClient() { close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void connect(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    // NOLINTNEXTLINE(*-reinterpret-cast): how sockets take addresses
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      close();
    }
  }
  bool isConnected() const { return socket_ >= 0; }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  void finishSending() { ::shutdown(socket_, SHUT_WR); }

  // False if the server has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  // One answer; nothing if the connection ends first. `to_head`: the answer has no body.
  std::optional<RawAnswer> receive(bool to_head = false) {
    std::size_t end = 0;
    while ((end = received_.find("\r\n\r\n")) == std::string::npos) {
      if (!receiveMore()) return std::nullopt;
    }
    RawAnswer answer = parseHead(received_.substr(0, end));
    received_.erase(0, end + 4);
    if (to_head || answer.status == 100 || answer.status == 204 || answer.status == 304) {
      return answer;
    }
    if (answer.header("Transfer-Encoding") == "chunked") {
      answer.body = receiveChunks();
      return answer;
    }
    const auto length = std::strtoul(answer.header("Content-Length").c_str(), nullptr, 10);
    while (received_.size() < length) {
      if (!receiveMore()) return std::nullopt;
    }
    answer.body = received_.substr(0, length);
    received_.erase(0, length);
    return answer;
  }

  // Reads until `text` has come, and returns everything up to its end.
  std::string receiveUntil(std::string_view text) {
    std::size_t at = 0;
    while ((at = received_.find(text)) == std::string::npos) {
      if (!receiveMore()) return std::exchange(received_, {});
    }
    const std::string taken = received_.substr(0, at + text.size());
    received_.erase(0, taken.size());
    return taken;
  }

  // Everything until the server closes.
  std::string receiveAll() {
    while (receiveMore()) {
    }
    return std::exchange(received_, {});
  }

  // How the connection ends; bytes that come before are kept.
  Ended waitForEnd(std::chrono::milliseconds patience = kPatience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (std::chrono::steady_clock::now() < deadline) {
      if (receiveMore(patience)) continue;
      return end_;
    }
    return Ended::StillOpen;
  }

 private:
  static RawAnswer parseHead(std::string_view head) {
    RawAnswer answer;
    answer.status = std::atoi(std::string(head.substr(9, 3)).c_str());
    for (std::size_t begin = head.find("\r\n"); begin != std::string_view::npos;) {
      begin += 2;
      const std::size_t end = head.find("\r\n", begin);
      const std::string_view line = head.substr(begin, end == head.npos ? end : end - begin);
      const std::size_t colon = line.find(": ");
      answer.headers.emplace_back(line.substr(0, colon), line.substr(colon + 2));
      begin = end;
    }
    return answer;
  }

  std::string receiveChunks() {
    std::string body;
    while (true) {
      const std::string line = receiveUntil("\r\n");
      const auto size = std::strtoul(line.c_str(), nullptr, 16);
      while (received_.size() < size + 2) {
        if (!receiveMore()) return body;
      }
      body += received_.substr(0, size);
      received_.erase(0, size + 2);
      if (size == 0) return body;
    }
  }

  bool receiveMore(std::chrono::milliseconds patience = kPatience) {
    pollfd waiting{.fd = socket_, .events = POLLIN, .revents = 0};
    end_ = Ended::StillOpen;
    if (::poll(&waiting, 1, static_cast<int>(patience.count())) <= 0) return false;
    char bytes[16384];
    const ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
    if (count <= 0) {
      end_ = count == 0 ? Ended::Closed : Ended::Reset;
      return false;
    }
    received_.append(bytes, static_cast<std::size_t>(count));
    return true;
  }

  int socket_ = -1;
  std::string received_;
  Ended end_ = Ended::StillOpen;
};

}  // namespace nimbus::http
