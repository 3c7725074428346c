#pragma once
// Names in archives.

#include <clocale>

namespace nimbus::function {

// libarchive turns names into the character set of the locale, and loses those that it has no room
// for. The server's locale is "C", so this thread has another while it reads or writes one.
class Utf8Names {
 public:
  Utf8Names() : locale_(::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {
    if (locale_ != nullptr) before_ = ::uselocale(locale_);
  }
  ~Utf8Names() {
    if (locale_ == nullptr) return;
    ::uselocale(before_);
    ::freelocale(locale_);
  }
  Utf8Names(const Utf8Names&) = delete;
  Utf8Names& operator=(const Utf8Names&) = delete;

 private:
  ::locale_t locale_;
  ::locale_t before_ = nullptr;
};

}  // namespace nimbus::function
