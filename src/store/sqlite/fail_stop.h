#pragma once
// The end of a process whose file can no longer be trusted.
//
// After a failed write or fsync, or on a damaged file, every further answer could be a lie. So the
// process ends, and the next start recovers and looks again. Whoever uses the file, to write or to
// read, shows its errors here first.

#include "base/error.h"

#include <functional>

namespace nimbus::store::sqlite {

class FailStop {
 public:
  // `end` is called with the error and must not return. Unless given, the process exits with
  // code 74 (EX_IOERR): that tells a supervisor that the disk, not the program, is at fault.
  explicit FailStop(std::function<void(const Error&)> end = nullptr);

  // Returns if one can live with the error: see isFatal(). Any thread.
  void check(const Error& error) const;

 private:
  std::function<void(const Error&)> end_;
};

}  // namespace nimbus::store::sqlite
