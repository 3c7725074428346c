#pragma once
// What the disk and SQLite do by themselves: the ceilings the store is held against.

#include <filesystem>

namespace nimbus::bench {

// Upserts per second of a plain SQLite loop, `per_transaction` of them in each, synchronous=FULL.
double bareUpsertsPerSecond(const std::filesystem::path& directory, int per_transaction,
                            double seconds);

// Median of: overwrite 4 KiB of a file that has its full length on the disk, fdatasync.
// Microseconds. That is what a commit to a WAL that has been used before costs at least; a file
// that grows would have its new length to be written, too.
double bareFdatasyncMicros(const std::filesystem::path& directory, int rounds);

}  // namespace nimbus::bench
