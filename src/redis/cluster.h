#pragma once
// A client of a Redis Cluster: knows which node has which slot, and learns when that changes.

#include "redis/client.h"

#include <array>
#include <optional>

namespace nimbus::redis {

class Cluster final : public Client {
 public:
  Cluster(boost::asio::any_io_executor executor, Options options);

  std::vector<Address> primaries() const override;

 private:
  Connection* route(const Request& request) override;
  void onMoved(std::uint16_t slot, const Address& address) override;
  void lookAgain() override;
  Address homeOf(const std::string& channel) const override;

  // Until some node has told its map.
  Task<> refresh();
  Task<bool> refreshFrom(Address node);
  bool learn(const Value& slots, const Address& from);
  std::vector<Address> candidates() const;

  std::array<std::uint16_t, 16384> owners_{};  // index into nodes_, plus one; 0 = unknown
  std::vector<Address> nodes_;
  bool refreshing_ = false;
  bool again_ = false;
};

}  // namespace nimbus::redis
