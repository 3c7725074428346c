#include "server/notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace nimbus::server {

void notifyManager(std::string_view state) {
  const char* const place = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  if (place == nullptr || (place[0] != '/' && place[0] != '@')) return;
  const std::size_t length = std::strlen(place);
  if (length >= sizeof(address.sun_path)) return;
  address.sun_family = AF_UNIX;
  std::memcpy(&address.sun_path, place, length);
  if (place[0] == '@') address.sun_path[0] = '\0';  // in the abstract namespace
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): how sockets take addresses
  ::sendto(socket, state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
           reinterpret_cast<const sockaddr*>(&address), size);
  ::close(socket);
}

}  // namespace nimbus::server
