#pragma once
// Where crash_writer writes and crash_reader looks.

#include "store/partition.h"

#include <string>

namespace nimbus::faults {

inline const std::string kFirstSpace = "first";
inline const std::string kSecondSpace = "second";
inline const std::string kFloorSpace = "floor";
inline const std::string kKey = "number";
inline const std::string kLog = "numbers";
inline const std::string kQueue = "numbers";

inline store::Partition partitionOf(int producer) {
  return store::Partition("crash", {std::to_string(producer)});
}

}  // namespace nimbus::faults
