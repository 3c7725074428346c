#include "base/time_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace nimbus {

std::string timeText(Timestamp time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count(),
                     clock.subseconds().count());
}

namespace {

// Takes the parts of a time off the front of a text; one that is not as it must be spoils it all.
class TimeReader {
 public:
  explicit TimeReader(std::string_view text) : rest_(text) {}

  int digits(std::size_t count, int least, int most) {
    int number = 0;
    if (rest_.size() < count) return fail();
    for (const char c : rest_.substr(0, count)) {
      if (c < '0' || c > '9') return fail();
      number = number * 10 + (c - '0');
    }
    rest_.remove_prefix(count);
    return number < least || number > most ? fail() : number;
  }
  // The one of `allowed` that comes next.
  char one(std::string_view allowed) {
    if (rest_.empty() || allowed.find(rest_.front()) == std::string_view::npos) {
      fail();
      return allowed.front();
    }
    const char taken = rest_.front();
    rest_.remove_prefix(1);
    return taken;
  }
  // Of a second; 0 if there is no fraction.
  Millis fraction() {
    if (rest_.empty() || rest_.front() != '.') return Millis(0);
    rest_.remove_prefix(1);
    const std::size_t length = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    if (length == 0) fail();
    int millis = 0;
    for (std::size_t i = 0; i < 3; ++i) millis = millis * 10 + (i < length ? rest_[i] - '0' : 0);
    rest_.remove_prefix(length);
    return Millis(millis);
  }
  std::chrono::minutes offset() {
    const char sign = one("Zz+-");
    if (sign == 'Z' || sign == 'z') return std::chrono::minutes(0);
    const int hours = digits(2, 0, 23);
    one(":");
    const std::chrono::minutes ahead(hours * 60 + digits(2, 0, 59));
    return sign == '-' ? -ahead : ahead;
  }
  bool isRead() const { return !has_failed_ && rest_.empty(); }

 private:
  int fail() {
    has_failed_ = true;
    return 0;
  }

  std::string_view rest_;
  bool has_failed_ = false;
};

}  // namespace

Result<Timestamp> parseTime(std::string_view text) {
  TimeReader reader(text);
  const std::chrono::year year(reader.digits(4, 0, 9999));
  reader.one("-");
  const std::chrono::month month(static_cast<unsigned>(reader.digits(2, 1, 12)));
  reader.one("-");
  const std::chrono::day day(static_cast<unsigned>(reader.digits(2, 1, 31)));
  reader.one("Tt ");
  Millis clock = std::chrono::hours(reader.digits(2, 0, 23));
  reader.one(":");
  clock += std::chrono::minutes(reader.digits(2, 0, 59));
  reader.one(":");
  clock += std::chrono::seconds(reader.digits(2, 0, 60));  // a leap second is the next one
  clock += reader.fraction();
  clock -= reader.offset();
  const std::chrono::year_month_day date(year, month, day);
  if (!reader.isRead() || !date.ok()) {
    return Error(Code::InvalidArgument,
                 "this must be a time such as \"2026-01-31T09:08:07Z\" (RFC 3339)");
  }
  return Timestamp(std::chrono::sys_days(date).time_since_epoch() + clock);
}

}  // namespace nimbus
