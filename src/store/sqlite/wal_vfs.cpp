#include "store/sqlite/wal_vfs.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <string>

namespace nimbus::store::sqlite {
namespace {

constexpr const char* kName = "nimbus-wal";

// What is collected is handed on before it becomes larger than this.
constexpr std::size_t kMost = 1024UL * 1024;
// The system's VFS writes fewer than 128 KiB at a time, and takes more for a full disk.
constexpr std::size_t kPiece = 64UL * 1024;

// SQLite gives the memory of a file and knows it by its first member. The system's own file lies
// behind ours.
struct WalFile {
  sqlite3_file base{};
  sqlite3_file* system = nullptr;
  std::string collected;
  sqlite3_int64 begin = 0;  // where in the file `collected` belongs

  static WalFile& of(sqlite3_file* file) { return *reinterpret_cast<WalFile*>(file); }  // NOLINT

  // What could not be written is dropped: SQLite gives the transaction up, and begins the next
  // where this one began.
  int handOn() {
    int code = SQLITE_OK;
    for (std::size_t at = 0; at < collected.size() && code == SQLITE_OK; at += kPiece) {
      const std::size_t bytes = std::min(kPiece, collected.size() - at);
      code = system->pMethods->xWrite(system, collected.data() + at, static_cast<int>(bytes),
                                      begin + static_cast<sqlite3_int64>(at));
    }
    collected.clear();
    if (collected.capacity() > 2 * kMost) collected = std::string();
    return code;
  }
};
static_assert(offsetof(WalFile, base) == 0);

// SQLite aligns the memory of files to 8 bytes.
static_assert(alignof(WalFile) <= 8);
constexpr std::size_t kSystemFileAt = (sizeof(WalFile) + 7) / 8 * 8;

int closeFile(sqlite3_file* file) {
  WalFile& wal = WalFile::of(file);
  const int handed_on = wal.handOn();
  const int closed = wal.system->pMethods->xClose(wal.system);
  std::destroy_at(&wal);
  return handed_on != SQLITE_OK ? handed_on : closed;
}

int readFile(sqlite3_file* file, void* to, int bytes, sqlite3_int64 at) {
  WalFile& wal = WalFile::of(file);
  if (const int code = wal.handOn(); code != SQLITE_OK) return code;
  return wal.system->pMethods->xRead(wal.system, to, bytes, at);
}

int writeFile(sqlite3_file* file, const void* from, int bytes, sqlite3_int64 at) {
  WalFile& wal = WalFile::of(file);
  const auto end = wal.begin + static_cast<sqlite3_int64>(wal.collected.size());
  if (at != end || wal.collected.size() >= kMost) {
    if (const int code = wal.handOn(); code != SQLITE_OK) return code;
  }
  if (wal.collected.empty()) wal.begin = at;
  try {
    wal.collected.append(static_cast<const char*>(from), static_cast<std::size_t>(bytes));
  } catch (const std::bad_alloc&) {
    return SQLITE_NOMEM;
  }
  return SQLITE_OK;
}

int truncateFile(sqlite3_file* file, sqlite3_int64 size) {
  WalFile& wal = WalFile::of(file);
  if (const int code = wal.handOn(); code != SQLITE_OK) return code;
  return wal.system->pMethods->xTruncate(wal.system, size);
}

int syncFile(sqlite3_file* file, int flags) {
  WalFile& wal = WalFile::of(file);
  if (const int code = wal.handOn(); code != SQLITE_OK) return code;
  return wal.system->pMethods->xSync(wal.system, flags);
}

int sizeOfFile(sqlite3_file* file, sqlite3_int64* size) {
  WalFile& wal = WalFile::of(file);
  if (const int code = wal.handOn(); code != SQLITE_OK) return code;
  return wal.system->pMethods->xFileSize(wal.system, size);
}

int lockFile(sqlite3_file* file, int lock) {
  WalFile& wal = WalFile::of(file);
  return wal.system->pMethods->xLock(wal.system, lock);
}

int unlockFile(sqlite3_file* file, int lock) {
  WalFile& wal = WalFile::of(file);
  return wal.system->pMethods->xUnlock(wal.system, lock);
}

int checkReservedLock(sqlite3_file* file, int* reserved) {
  WalFile& wal = WalFile::of(file);
  return wal.system->pMethods->xCheckReservedLock(wal.system, reserved);
}

int controlFile(sqlite3_file* file, int operation, void* argument) {
  WalFile& wal = WalFile::of(file);
  return wal.system->pMethods->xFileControl(wal.system, operation, argument);
}

int sectorSize(sqlite3_file* file) {
  WalFile& wal = WalFile::of(file);
  return wal.system->pMethods->xSectorSize(wal.system);
}

int deviceCharacteristics(sqlite3_file* file) {
  WalFile& wal = WalFile::of(file);
  return wal.system->pMethods->xDeviceCharacteristics(wal.system);
}

sqlite3_io_methods methodsOfWal() {
  sqlite3_io_methods methods{};
  methods.iVersion = 1;  // shared memory belongs to the database's own file
  methods.xClose = closeFile;
  methods.xRead = readFile;
  methods.xWrite = writeFile;
  methods.xTruncate = truncateFile;
  methods.xSync = syncFile;
  methods.xFileSize = sizeOfFile;
  methods.xLock = lockFile;
  methods.xUnlock = unlockFile;
  methods.xCheckReservedLock = checkReservedLock;
  methods.xFileControl = controlFile;
  methods.xSectorSize = sectorSize;
  methods.xDeviceCharacteristics = deviceCharacteristics;
  return methods;
}

sqlite3_vfs* systemOf(sqlite3_vfs* vfs) {
  return static_cast<sqlite3_vfs*>(vfs->pAppData);
}

int openFile(sqlite3_vfs* vfs, sqlite3_filename name, sqlite3_file* file, int flags,
             int* flags_given) {
  static const sqlite3_io_methods kMethods = methodsOfWal();
  sqlite3_vfs* const system = systemOf(vfs);
  if ((flags & SQLITE_OPEN_WAL) == 0) return system->xOpen(system, name, file, flags, flags_given);
  auto* const wal = new (file) WalFile;
  wal->system = reinterpret_cast<sqlite3_file*>(            // NOLINT
      reinterpret_cast<std::byte*>(file) + kSystemFileAt);  // NOLINT
  const int code = system->xOpen(system, name, wal->system, flags, flags_given);
  if (code != SQLITE_OK) {
    std::destroy_at(wal);
    file->pMethods = nullptr;
    return code;
  }
  // Where a write may harm what lies beside it SQLite pads the log after it was made durable, and
  // others could see that padding before it is there.
  const int device = wal->system->pMethods->xDeviceCharacteristics(wal->system);
  if ((device & SQLITE_IOCAP_POWERSAFE_OVERWRITE) == 0) {
    wal->system->pMethods->xClose(wal->system);
    std::destroy_at(wal);
    return system->xOpen(system, name, file, flags, flags_given);
  }
  file->pMethods = &kMethods;
  return SQLITE_OK;
}

const char* registerVfs() {
  sqlite3_vfs* const system = sqlite3_vfs_find(nullptr);
  if (system == nullptr) return nullptr;
  // All but the opening of files is the system's, which looks at its pAppData only there.
  static sqlite3_vfs vfs = *system;
  vfs.zName = kName;
  vfs.pNext = nullptr;
  vfs.szOsFile = static_cast<int>(kSystemFileAt) + system->szOsFile;
  vfs.pAppData = system;
  vfs.xOpen = openFile;
  return sqlite3_vfs_register(&vfs, 0) == SQLITE_OK ? kName : nullptr;
}

}  // namespace

const char* walVfs() {
  static const char* const kRegistered = registerVfs();
  return kRegistered;
}

}  // namespace nimbus::store::sqlite
