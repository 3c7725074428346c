#pragma once
// Where the primary is, as Sentinels see it.

#include "base/result.h"
#include "base/task.h"
#include "redis/connection.h"

#include <string>
#include <vector>

namespace nimbus::redis {

// The first Sentinel that answers decides. Unavailable if none does, or none knows the name.
Task<Result<Address>> askSentinels(boost::asio::any_io_executor executor,
                                   std::vector<Address> sentinels, std::string primary,
                                   Connection::Options options);

}  // namespace nimbus::redis
