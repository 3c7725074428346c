#pragma once
// Answers, results and errors as one line of text each: what the suite compares, so that a failure
// shows the difference. Only what the port gives a meaning to is in the text: terms are a set, and
// a queue item has the fields of its part.

#include "base/error.h"
#include "store/batch.h"
#include "store/query.h"

#include <string>
#include <string_view>

namespace nimbus::store::conformance {

// Printable, whatever the bytes; long ones are told apart by size and hash.
std::string text(std::string_view bytes);
std::string text(const std::optional<Timestamp>& moment);

std::string text(const Record& record);
std::string text(const Entry& entry);
std::string text(const Lease& lease);
std::string text(const QueueItem& item);
std::string text(const LogInfo& info);
std::string text(const Usage& usage);
std::string text(const QueueInfo& info);
std::string text(const IndexHit& hit);
std::string text(const DirectoryEntry& entry);
std::string text(const Answer& answer);  // pages: one line per item

std::string text(const OperationResult& result);
std::string text(const Batch& batch);  // its parts and their names, for a reader of a failure

// "version_conflict current_version=3 operation=0": the code and the fields by name.
std::string text(const Error& error);

}  // namespace nimbus::store::conformance
