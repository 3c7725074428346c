#pragma once
// Functions for Nimbus in C++.
//
//   #include <nimbus/function.h>
//
//   nimbus::Json handle(const nimbus::Json& event, nimbus::State& state) {
//     return state.incr("visits");
//   }
//
// A handler takes (event), (event, state) or (event, state, context) and returns what a
// nimbus::Json can be made of, or nothing, which is null. What it throws is the error of the call.
// An object of exactly `status_code` and `body` chooses the status of the answer.
//
// Deployed as source, that is all. A program of your own also needs NIMBUS_FUNCTION(handle), once;
// it defines main(). docs/native.md has the rest.

#include <nimbus/function/events.h>
#include <nimbus/function/instance.h>

// The qualified name of a function, or anything that can be called.
#define NIMBUS_FUNCTION(handler)                                                    \
  int main() {                                                                      \
    ::nimbus::native::runInstance([](::nimbus::Json& event, ::nimbus::State& state, \
                                     std::string_view context) -> ::nimbus::Json {  \
      return ::nimbus::native::callHandler(handler, event, state, context);         \
    });                                                                             \
  }                                                                                 \
  static_assert(true, "so that a semicolon may follow")
