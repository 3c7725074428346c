// Messages of a chat room are handled in the order in which they were sent; rooms do not wait for
// each other. The history of a room needs no lock, because nobody handles two of its messages at
// once.

#include <nimbus/dispatch.h>

#include <iostream>
#include <map>
#include <string>
#include <vector>

int main() {
  std::map<std::string, std::vector<std::string>> history = {{"garden", {}}, {"kitchen", {}}};

  nimbus::DispatcherConfig config;
  config.pool_size = 4;
  config.on_full = nimbus::OnFull::Block;  // rather wait than be refused

  nimbus::Dispatcher rooms(config, [&](const nimbus::Task& task, std::stop_token) {
    auto& lines = history.at(task.session_id);
    lines.push_back(std::any_cast<std::string>(task.payload));
    return nimbus::TaskOutcome::ok(lines.size());
  });

  for (int i = 1; i <= 1000; ++i) {
    const std::string text = "message " + std::to_string(i);
    rooms.submit({.session_id = "garden", .payload = text});
    rooms.submit({.session_id = "kitchen", .payload = text});
  }
  rooms.submit({.id = "goodbye", .session_id = "garden", .payload = std::string("goodbye")});

  const auto last = rooms.wait("goodbye", std::chrono::seconds(10));
  std::cout << "the garden has " << std::any_cast<std::size_t>(last->value) << " messages\n";

  rooms.shutdown();  // everything that was accepted has run
  std::cout << "number 500 of the kitchen is: " << history["kitchen"][499] << "\n";
}
