#include "function/published.h"

#include <atomic>

namespace nimbus::function {

std::shared_ptr<const Deployed> Published::find(std::string_view id) const {
  const Place& place = mine();
  const std::lock_guard lock(place.mutex);
  const auto found = place.map->find(id);
  return found != place.map->end() ? found->second : nullptr;
}

std::shared_ptr<const Published::Map> Published::all() const {
  const Place& place = mine();
  const std::lock_guard lock(place.mutex);
  return place.map;
}

void Published::replace(const std::shared_ptr<const Map>& map) {
  const std::shared_ptr<const Map> old = all();  // destroyed when no lock is held
  for (Place& place : places_) {
    const std::lock_guard lock(place.mutex);
    place.map = map;
  }
}

const Published::Place& Published::mine() const {
  static std::atomic<std::size_t> threads = 0;
  thread_local const std::size_t kThread = threads.fetch_add(1, std::memory_order_relaxed);
  return places_[kThread % kPlaces];
}

}  // namespace nimbus::function
