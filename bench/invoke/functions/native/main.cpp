#include <nimbus/function.h>

nimbus::Json handle(const nimbus::Json&, nimbus::State& state) {
  return state.incr("n");
}
