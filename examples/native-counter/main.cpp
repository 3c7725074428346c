// Counts the visits of a session, and remembers who came.

#include <nimbus/function.h>

nimbus::Json handle(const nimbus::Json& event, nimbus::State& state) {
  nimbus::Json guests = state.get("guests");
  const std::string name = event["name"].asString("somebody");
  guests[name] = guests[name].asInt(0) + 1;
  state.set("guests", guests);
  return nimbus::Json::object({{"visits", state.incr("visits")}, {"guests", guests}});
}
