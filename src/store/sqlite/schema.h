#pragma once
// The file's tables and how they came to be. The layout is described at the head of schema.cpp.

#include "base/result.h"
#include "store/sqlite/database.h"

namespace nimbus::store::sqlite {

// The newest layout this program knows.
inline constexpr int kSchemaVersion = 2;

// Brings the file to kSchemaVersion, in one transaction. Nothing else may use the file meanwhile
// (the caller holds the turnstile). Unprocessable if the file is of a newer program or is no
// database of ours; it is left as it was.
Result<> prepareSchema(Connection& connection);

}  // namespace nimbus::store::sqlite
