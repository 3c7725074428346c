#pragma once
// What the disk and SQLite do by themselves: the ceilings the store is held against.

#include <filesystem>

namespace nimbus::bench {

// Upserts per second of a plain SQLite loop, `per_transaction` of them in each, synchronous=FULL.
double bareUpsertsPerSecond(const std::filesystem::path& directory, int per_transaction,
                            double seconds);

// Median of: append 4 KiB to a file, fdatasync. Microseconds.
double bareFdatasyncMicros(const std::filesystem::path& directory, int rounds);

}  // namespace nimbus::bench
