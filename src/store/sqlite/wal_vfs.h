#pragma once
// How the writer's connection writes its write-ahead log: as one piece per transaction.
//
// SQLite writes every page of a transaction with two calls, one for the frame's head and one for
// the page. This VFS, a thin layer over the one of the system, collects what is written to the log
// in a row and hands it on when SQLite wants it to be durable, or to be read. Nothing else is
// changed: other files, and other connections, are the system's own.
//
// Only for connections with synchronous=FULL: those alone make the log durable before they let
// others know that it has grown.

namespace nimbus::store::sqlite {

// Registers it, once per process. Its name, or null if the system's VFS is none that can be built
// on.
const char* walVfs();

}  // namespace nimbus::store::sqlite
