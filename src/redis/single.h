#pragma once
// A client of one server, or of the primary that Sentinels name.

#include "redis/client.h"

namespace nimbus::redis {

class Single final : public Client {
 public:
  Single(boost::asio::any_io_executor executor, Options options);

  std::vector<Address> primaries() const override { return {home_}; }

 private:
  Connection* route(const Request& request) override;
  void onMoved(std::uint16_t slot, const Address& address) override;
  void lookAgain() override;
  Address homeOf(const std::string& channel) const override;

  // Where the one server is expected. With Sentinels a name for it: each connection asks them
  // where.
  Address home_;
};

}  // namespace nimbus::redis
