#pragma once

#include <string_view>

namespace nimbus::server {

// Tells whoever started the server how it is, such as "READY=1", if NOTIFY_SOCKET says that they
// listen: systemd does, for units of Type=notify. Whether it arrives is not our business.
void notifyManager(std::string_view state);

}  // namespace nimbus::server
