#pragma once
// State that is in the instance while a call runs: what came with the call, and over it what the
// call did.
//
// The server hands a call its session's state and takes back what became of it, so that an
// operation costs no message, but for values and keys that did not come along. The rules are those
// of docs/protocol.md, "What an instance must do for session scope"; the server refuses a result
// that breaks them.

#include <nimbus/function/channel.h>
#include <nimbus/function/error.h>
#include <nimbus/function/frames.h>
#include <nimbus/function/glob.h>
#include <nimbus/function/json_text.h>
#include <nimbus/function/space.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <list>
#include <mutex>
#include <span>
#include <unordered_map>

namespace nimbus::native {

// Asks the server for what did not come along.
class Loader {
 public:
  virtual ~Loader() = default;
  // A reply with the rows of these keys and their values, or with all rows and no values if null.
  virtual Frame load(const std::vector<std::string_view>* keys) = 0;
};

// The store's clock, as it goes on from what it was when the call began.
class StoreClock {
 public:
  StoreClock(std::int64_t now_ms, std::int64_t arrived_ns)
      : now_ms_(now_ms), arrived_ns_(arrived_ns) {}

  std::int64_t millis() const { return now_ms_ + (monotonicNanos() - arrived_ns_) / 1'000'000; }

 private:
  std::int64_t now_ms_;
  std::int64_t arrived_ns_;
};

// What a call did to a key.
enum class Change : std::uint8_t { None, Expiry, Value };

// What is known besides the rows when a call begins.
struct Beginning {
  std::int64_t floor = 0;   // the highest version of anything that is gone
  bool is_complete = true;  // there is no key but those in the rows
};

class LocalSpace final : public Space {
 public:
  // `loader` may be null if all is here. It and `limits` must outlive this.
  LocalSpace(const Limits& limits, StoreClock clock, Beginning beginning, Loader* loader)
      : limits_(limits),
        clock_(clock),
        floor_(beginning.floor),
        is_complete_(beginning.is_complete),
        loader_(loader) {}

  // Takes in rows as they stand in Invoke, and the values of the first of them. What is known of a
  // key already is newer and stays. The text and the values must outlive this. Throws JsonError if
  // they are no rows.
  void takeIn(std::string_view rows, std::span<const std::string_view> values) {
    Scanner scanner(rows);
    std::size_t row = 0;
    scanner.elements(0, [&] {
      scanner.expect('[');
      const Quoted name = scanner.string();
      scanner.expect(',');
      const std::int64_t version = scanner.integer();
      scanner.expect(',');
      const std::int64_t expires = scanner.integer();
      scanner.expect(',');
      const std::int64_t size = scanner.integer();
      scanner.expect(']');
      std::string decoded;
      if (name.has_escapes) decoded = name.decoded();
      const std::string_view key = name.has_escapes ? std::string_view(decoded) : name.raw;
      Entry* entry = entryOf(key);
      if (entry == nullptr) {
        entry = &add(Text::of(name.raw, std::move(decoded)));
        entry->version = version;
        entry->expires = expires;
        entry->size = static_cast<std::uint64_t>(size);
        entry->is_there = true;
        ++count_;
        bytes_ += entry->size;
        noteExpiry(expires);
      }
      if (row < values.size() && entry->is_there && !entry->has_value) {
        entry->value = Text::of(values[row], {});
        entry->has_value = true;
      }
      ++row;
    });
  }

  std::optional<Found> get(std::string_view key) override {
    const std::lock_guard lock(mutex_);
    begin();
    const Entry* const entry = findWhole(key);
    if (entry == nullptr) return std::nullopt;
    return Found{std::string(entry->value.view()), entry->version};
  }

  std::vector<std::optional<std::string>> getMany(
      const std::vector<std::string_view>& keys) override {
    const std::lock_guard lock(mutex_);
    begin();
    std::vector<std::string_view> unknown;
    for (const std::string_view key : keys) {
      const Entry* const entry = entryOf(key);
      const bool is_unknown =
          entry == nullptr ? !is_complete_ : entry->is_there && !entry->has_value;
      if (is_unknown && std::find(unknown.begin(), unknown.end(), key) == unknown.end()) {
        unknown.push_back(key);
      }
    }
    if (!unknown.empty()) fetch(unknown);
    std::vector<std::optional<std::string>> texts(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const Entry* const entry = entryOf(keys[i]);
      if (entry != nullptr && entry->is_there) texts[i] = std::string(entry->value.view());
    }
    return texts;
  }

  std::int64_t set(std::string_view key, std::string_view text, std::optional<std::int64_t> version,
                   double ttl) override {
    const std::lock_guard lock(mutex_);
    begin();
    Entry* const entry = find(key);
    checkSize(key, text);
    if (version) {
      const std::int64_t current = entry != nullptr ? entry->version : 0;
      if (*version != current) {
        throw StateError("version_conflict",
                         named(key) + " has version " + std::to_string(current) +
                             ", expected was " + std::to_string(*version),
                         current);
      }
    }
    return put(key, entry, text, expiryOf(ttl)).version;
  }

  void setMany(const std::vector<KeyAndText>& values, double ttl) override {
    const std::lock_guard lock(mutex_);
    begin();
    std::uint64_t more = 0;
    std::int64_t growth = 0;
    for (const auto& [key, text] : values) {
      const Entry* const entry = find(key);
      checkSize(key, text);
      more += entry == nullptr ? 1 : 0;
      growth += static_cast<std::int64_t>(text.size()) -
                (entry != nullptr ? static_cast<std::int64_t>(entry->size) : 0);
    }
    makeRoom(more, growth);
    const std::int64_t expires = expiryOf(ttl);
    for (const auto& [key, text] : values) write(key, entryOf(key), text, expires);
  }

  std::int64_t incr(std::string_view key, std::int64_t delta) override {
    return calculate(key, [delta](std::int64_t before, std::int64_t& after) {
      return __builtin_add_overflow(before, delta, &after);
    });
  }

  std::int64_t decr(std::string_view key, std::int64_t delta) override {
    return calculate(key, [delta](std::int64_t before, std::int64_t& after) {
      return __builtin_sub_overflow(before, delta, &after);
    });
  }

  bool remove(std::string_view key) override {
    const std::lock_guard lock(mutex_);
    begin();
    Entry* const entry = find(key);
    if (entry == nullptr) return false;
    drop(*entry);
    mark(*entry, Change::Value);
    return true;
  }

  std::int64_t clear() override {
    const std::lock_guard lock(mutex_);
    begin();
    list();
    const auto before = static_cast<std::int64_t>(count_);
    for (Entry& entry : entries_) {
      if (!entry.is_there) continue;
      drop(entry);
      mark(entry, Change::Value);
    }
    return before;
  }

  bool exists(std::string_view key) override {
    const std::lock_guard lock(mutex_);
    begin();
    return find(key) != nullptr;
  }

  std::vector<std::string> keys(std::string_view pattern) override {
    const std::lock_guard lock(mutex_);
    begin();
    list();
    std::vector<std::string> found;
    for (const Entry& entry : entries_) {
      if (entry.is_there && matches(pattern, entry.key.view())) {
        found.emplace_back(entry.key.view());
      }
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  void expire(std::string_view key, double ttl) override {
    const std::lock_guard lock(mutex_);
    begin();
    Entry& entry = existing(key, findWhole(key));
    touch(entry, expiryOf(ttl), Change::Expiry);
  }

  void persist(std::string_view key) override {
    const std::lock_guard lock(mutex_);
    begin();
    touch(existing(key, findWhole(key)), 0, Change::Expiry);
  }

  double ttl(std::string_view key) override {
    const std::lock_guard lock(mutex_);
    begin();
    const std::int64_t expires = existing(key, find(key)).expires;
    return expires == 0 ? -1 : static_cast<double>(expires - now_) / 1000;
  }

  // Ends all operations. Appends what became of the keys that were changed: to `head` members of
  // the head of Result, each after a comma, to `values` what goes with them. The values are good as
  // long as this is.
  void close(std::string& head, std::vector<std::string_view>& values) {
    const std::lock_guard lock(mutex_);
    begin();
    is_closed_ = true;
    soonest_ = std::numeric_limits<std::int64_t>::min();
    if (changed_.empty()) return;
    const auto isWrite = [](const Entry& entry) {
      return entry.is_there && entry.change == Change::Value;
    };
    appendList(head, ",\"writes\":[", isWrite);
    for (const Entry* const entry : changed_) {
      if (isWrite(*entry)) values.push_back(entry->value.view());
    }
    appendList(head, ",\"touches\":[",
               [](const Entry& entry) { return entry.is_there && entry.change == Change::Expiry; });
    appendList(head, ",\"deletes\":[", [](const Entry& entry) { return !entry.is_there; });
  }

 private:
  // Bytes of somebody who lives longer, or our own.
  class Text {
   public:
    // `own`, unless it is empty.
    static Text of(std::string_view view, std::string own) {
      Text text;
      text.own_ = std::move(own);
      if (text.own_.empty()) text.view_ = view;
      return text;
    }

    std::string_view view() const { return own_.empty() ? view_ : std::string_view(own_); }
    void assign(std::string_view bytes) { own_.assign(bytes); }

   private:
    std::string_view view_;
    std::string own_;
  };

  // Stays when its key goes: it remembers the version, and that the call did it. One that is not
  // there and has version 0 is of a key known to be missing.
  struct Entry {
    Text key;
    Text value;
    std::int64_t version = 0;
    std::int64_t expires = 0;  // Unix milliseconds, 0 if never
    std::uint64_t size = 0;    // of the value
    bool is_there = false;
    bool has_value = false;  // else only the server has it
    Change change = Change::None;
  };

  // More than these are looked up in an index.
  static constexpr std::size_t kFew = 12;

  // ---- Steps of operations; the lock is held.

  // Removes what has expired, so that every entry an operation finds is there.
  void begin() {
    now_ = clock_.millis();
    if (now_ < soonest_) return;
    if (is_closed_) throw ended();
    soonest_ = std::numeric_limits<std::int64_t>::max();
    for (Entry& entry : entries_) {
      if (!entry.is_there || entry.expires == 0) continue;
      if (entry.expires <= now_) {
        drop(entry);
      } else {
        noteExpiry(entry.expires);
      }
    }
  }

  Entry* entryOf(std::string_view key) {
    if (entries_.size() > kFew) {
      const auto found = index_.find(key);
      return found != index_.end() ? found->second : nullptr;
    }
    for (Entry& entry : entries_) {
      if (entry.key.view() == key) return &entry;
    }
    return nullptr;
  }

  Entry& add(Text key) {
    Entry& added = entries_.emplace_back();
    added.key = std::move(key);
    if (entries_.size() == kFew + 1) {
      for (Entry& entry : entries_) index_.emplace(entry.key.view(), &entry);
    } else if (entries_.size() > kFew) {
      index_.emplace(added.key.view(), &added);
    }
    return added;
  }

  // Null if it is not there.
  Entry* find(std::string_view key) {
    Entry* entry = entryOf(key);
    if (entry == nullptr && !is_complete_) {
      fetch({key});
      entry = entryOf(key);
    }
    return entry != nullptr && entry->is_there ? entry : nullptr;
  }

  Entry* findWhole(std::string_view key) {
    Entry* const entry = find(key);
    if (entry == nullptr || entry->has_value) return entry;
    fetch({key});
    return entry->is_there ? entry : nullptr;
  }

  static Entry& existing(std::string_view key, Entry* entry) {
    if (entry == nullptr) throw StateError("not_found", "there is no key " + named(key));
    return *entry;
  }

  std::int64_t expiryOf(double ttl) const {
    if (ttl < 0) return 0;
    if (ttl == 0) return limits_.default_ttl_ms == 0 ? 0 : now_ + limits_.default_ttl_ms;
    return now_ + static_cast<std::int64_t>(std::max(1.0, std::ceil(ttl * 1000)));
  }

  void checkSize(std::string_view key, std::string_view text) const {
    const std::uint64_t most = limits_.max_value_bytes;
    if (most != 0 && text.size() > most) {
      throw StateError("too_large", "the value of " + named(key) + " has " +
                                        std::to_string(text.size()) + " bytes, at most " +
                                        std::to_string(most) + " are allowed");
    }
  }

  // Refuses so many more keys or bytes if that is too much. What adds nothing always passes.
  void makeRoom(std::uint64_t keys, std::int64_t bytes) {
    if (keys > 0 && limits_.max_keys != 0) {
      list();
      if (count_ + keys > limits_.max_keys) {
        throw StateError("quota_exceeded",
                         "at most " + std::to_string(limits_.max_keys) + " keys are allowed");
      }
    }
    if (bytes > 0 && limits_.max_total_bytes != 0) {
      list();
      if (bytes_ + static_cast<std::uint64_t>(bytes) > limits_.max_total_bytes) {
        throw StateError("quota_exceeded", "at most " + std::to_string(limits_.max_total_bytes) +
                                               " bytes of values are allowed");
      }
    }
  }

  template <typename Operation>
  std::int64_t calculate(std::string_view key, Operation operation) {
    const std::lock_guard lock(mutex_);
    begin();
    Entry* const entry = findWhole(key);
    std::int64_t number = 0;
    if (entry != nullptr && !readInteger(entry->value.view(), number)) {
      throw invalid(named(key) + " is not an integer of 64 bits");
    }
    if (operation(number, number)) throw invalid(named(key) + " would not fit into 64 bits");
    std::array<char, 24> digits;
    const auto written = std::to_chars(digits.begin(), digits.end(), number);
    const std::string_view text(digits.data(),
                                static_cast<std::size_t>(written.ptr - digits.data()));
    checkSize(key, text);
    put(key, entry, text, entry != nullptr ? entry->expires : expiryOf(0));
    return number;
  }

  // `entry`: that of the key, null if it is not there.
  Entry& put(std::string_view key, Entry* entry, std::string_view text, std::int64_t expires) {
    makeRoom(entry == nullptr ? 1 : 0,
             static_cast<std::int64_t>(text.size()) -
                 (entry != nullptr ? static_cast<std::int64_t>(entry->size) : 0));
    return write(key, entry != nullptr ? entry : entryOf(key), text, expires);
  }

  // `entry`: that of the key, there or not.
  Entry& write(std::string_view key, Entry* entry, std::string_view text, std::int64_t expires) {
    if (entry == nullptr) entry = &add(Text::of({}, std::string(key)));
    if (!entry->is_there) {
      entry->is_there = true;
      entry->version = floor_;
      entry->size = 0;
      ++count_;
    }
    bytes_ += text.size();
    bytes_ -= entry->size;
    entry->size = text.size();
    entry->value.assign(text);
    entry->has_value = true;
    touch(*entry, expires, Change::Value);
    return *entry;
  }

  void touch(Entry& entry, std::int64_t expires, Change change) {
    ++entry.version;
    entry.expires = expires;
    noteExpiry(expires);
    mark(entry, change);
  }

  void drop(Entry& entry) {
    entry.is_there = false;
    --count_;
    bytes_ -= entry.size;
    floor_ = std::max(floor_, entry.version);
  }

  void mark(Entry& entry, Change change) {
    if (entry.change == Change::None) changed_.push_back(&entry);
    entry.change = std::max(entry.change, change);
  }

  void noteExpiry(std::int64_t expires) {
    if (expires > 0) soonest_ = std::min(soonest_, expires);
  }

  template <typename Belongs>
  void appendList(std::string& head, std::string_view begin, Belongs belongs) const {
    bool is_first = true;
    for (const Entry* const entry : changed_) {
      if (!belongs(*entry)) continue;
      head += std::exchange(is_first, false) ? begin : std::string_view(",");
      head += '[';
      appendString(head, entry->key.view());
      head += ',';
      appendInteger(head, entry->version);
      if (entry->is_there) {
        head += ',';
        appendInteger(head, entry->expires);
      }
      head += ']';
    }
    if (!is_first) head += ']';
  }

  static void appendInteger(std::string& out, std::int64_t number) {
    std::array<char, 24> digits;
    out.append(digits.data(), std::to_chars(digits.begin(), digits.end(), number).ptr);
  }

  // ---- What did not come along.

  // Takes in these keys and their values. One the server does not have any more has expired.
  void fetch(const std::vector<std::string_view>& keys) {
    if (loader_ == nullptr) return;
    takeInReply(loader_->load(&keys));
    for (const std::string_view key : keys) {
      Entry* const entry = entryOf(key);
      if (entry == nullptr) {
        add(Text::of({}, std::string(key)));
      } else if (entry->is_there && !entry->has_value) {
        drop(*entry);
      }
    }
  }

  void list() {
    if (is_complete_ || loader_ == nullptr) return;
    takeInReply(loader_->load(nullptr));
    is_complete_ = true;
  }

  void takeInReply(Frame reply) {
    replies_.push_back(std::move(reply));
    const Frame& kept = replies_.back();
    Scanner scanner(kept.head());
    scanner.members(0, [&](const Quoted& name) {
      const std::string_view value = scanner.trusted();
      if (name.raw == "keys") takeIn(value, std::span(kept.segments).subspan(1));
    });
  }

  const Limits& limits_;
  const StoreClock clock_;
  std::int64_t floor_;  // the highest version of anything that is gone
  bool is_complete_;    // every key that is there has an entry
  Loader* const loader_;
  std::mutex mutex_;
  std::deque<Entry> entries_;
  std::unordered_map<std::string_view, Entry*> index_;
  std::vector<Entry*> changed_;
  std::list<Frame> replies_;                                         // entries refer to them
  std::size_t count_ = 0;                                            // keys that are there
  std::uint64_t bytes_ = 0;                                          // of their values
  std::int64_t now_ = 0;                                             // of the operation
  std::int64_t soonest_ = std::numeric_limits<std::int64_t>::max();  // no key expires before
  bool is_closed_ = false;
};

}  // namespace nimbus::native
