#include "base/version.h"

namespace nimbus {

std::string_view version() {
  return NIMBUS_VERSION;
}

}  // namespace nimbus
