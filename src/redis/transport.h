#pragma once
// Bytes to and from a server, in the clear or in TLS. Single-threaded.

#include "base/result.h"
#include "base/task.h"
#include "redis/address.h"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/system/error_code.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace boost::asio::ssl {
class context;
}

namespace nimbus::redis {

class Transport {
 public:
  using Written = std::function<void(const boost::system::error_code&)>;

  virtual ~Transport() = default;
  // Unavailable, NotApplied.
  virtual Task<Result<>> open(Address address) = 0;
  // How many bytes were read; at least one.
  virtual Task<Result<std::size_t>> read(boost::asio::mutable_buffer buffer) = 0;
  // Writes all of it; one at a time. The bytes must live until `written` is called.
  virtual void write(boost::asio::const_buffer bytes, Written written) = 0;
  // Whatever goes on fails soon after.
  virtual void close() = 0;
};

// Without a context it is in the clear.
std::unique_ptr<Transport> makeTransport(const boost::asio::any_io_executor& executor,
                                         std::shared_ptr<boost::asio::ssl::context> tls);

// Verifies the server by the system's certificates (or those that SSL_CERT_FILE names).
// InvalidArgument if they cannot be read.
Result<std::shared_ptr<boost::asio::ssl::context>> makeTlsContext();

}  // namespace nimbus::redis
