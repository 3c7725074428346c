#include "store/batch.h"

#include <boost/container/small_vector.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>

namespace nimbus::store {
namespace {

Error malformed(std::string message) {
  return {Code::InvalidArgument, std::move(message)};
}

enum class Thing : std::uint8_t { Record, Entry, Item, Lease, Limiter };

// One thing that an operation changes.
struct Touch {
  Thing thing;
  std::string_view container;  // space, log or queue; empty for leases and limiters
  std::string_view id;

  auto operator<=>(const Touch&) const = default;
};

// A space or log of which an operation removes many at once.
struct Bulk {
  Thing thing;
  std::string_view container;
};

// Walks a batch once and collects what the rules are about. Names are borrowed from the batch.
class Survey {
 public:
  Result<> add(const Operation& operation) {
    return std::visit([this](const auto& o) { return this->visit(o); }, operation);
  }

  Result<> add(const Condition& condition) const {
    return std::visit([this](const auto& c) { return this->visit(c); }, condition);
  }

  Result<> finish(std::size_t operations) {
    if (partition_dropped_ && operations > 1) {
      return malformed("DropPartition must be the only operation of its batch");
    }
    std::sort(touches_.begin(), touches_.end());
    const auto twice = std::adjacent_find(touches_.begin(), touches_.end());
    if (twice != touches_.end()) {
      return malformed(fmt::format("'{}' is changed twice in one batch", twice->id));
    }
    return {};
  }

 private:
  // Whether a thing may be changed after an operation that removes many of its kind.
  enum class AfterBulk { Refused, Allowed };
  // Whether a batch may remove many of one space or log more than once.
  enum class Repeated { Refused, Allowed };

  Result<> name(std::string_view what, std::string_view text) const {
    if (!text.empty() && text.size() <= kMaxNameBytes) return {};
    return malformed(
        fmt::format("{} must have 1 to {} bytes, has {}", what, kMaxNameBytes, text.size()));
  }

  Result<> touch(Touch touch, AfterBulk after_bulk) {
    const bool contained = touch.thing != Thing::Lease && touch.thing != Thing::Limiter;
    if (contained) NIMBUS_CHECK(name("a space, log or queue", touch.container));
    NIMBUS_CHECK(name("a key or id", touch.id));
    if (after_bulk == AfterBulk::Refused && isBulk(touch.thing, touch.container)) {
      return malformed(fmt::format("'{}' cannot be changed in the batch that clears its '{}'",
                                   touch.id, touch.container));
    }
    touches_.push_back(touch);
    return {};
  }

  Result<> bulk(Thing thing, std::string_view container, Repeated repeated) {
    NIMBUS_CHECK(name("a space or log", container));
    const bool touched = std::any_of(touches_.begin(), touches_.end(), [&](const Touch& t) {
      return t.thing == thing && t.container == container;
    });
    const bool again = repeated == Repeated::Refused && isBulk(thing, container);
    if (touched || again || isDropped(container, thing)) {
      return malformed(fmt::format("'{}' is cleared after it was changed", container));
    }
    bulks_.push_back({thing, container});
    return {};
  }

  bool isBulk(Thing thing, std::string_view container) const {
    return std::any_of(bulks_.begin(), bulks_.end(),
                       [&](const Bulk& b) { return b.thing == thing && b.container == container; });
  }

  bool isDropped(std::string_view log, Thing thing = Thing::Entry) const {
    return thing == Thing::Entry &&
           std::find(dropped_logs_.begin(), dropped_logs_.end(), log) != dropped_logs_.end();
  }

  Result<> terms(const std::vector<Term>& terms) const {
    for (const Term& term : terms) {
      NIMBUS_CHECK(name("an index", term.index));
      if (term.value.size() > kMaxNameBytes) {
        return malformed(fmt::format("a term must have at most {} bytes", kMaxNameBytes));
      }
    }
    return {};
  }

  // A version that a record takes, or that a removed one has had (`least` 0: it need not have).
  Result<> version(Version given, Version least) const {
    if (given >= least && given <= kMaxVersion) return {};
    return malformed(fmt::format("a version must be {} to {}, is {}", least, kMaxVersion, given));
  }

  // A put or add may follow an EraseSpace, but then there is no version left to expect.
  Result<> write(const std::string& space, const std::string& key,
                 const std::optional<Version>& expected) {
    if (expected && isBulk(Thing::Record, space)) {
      return malformed(fmt::format("'{}' expects a version in a space that is cleared", key));
    }
    return touch({Thing::Record, space, key}, AfterBulk::Allowed);
  }

  Result<> visit(const op::Put& o) {
    if (o.version) NIMBUS_CHECK(version(*o.version, 1));
    return write(o.space, o.key, o.expected);
  }
  Result<> visit(const op::Add& o) { return write(o.space, o.key, o.expected); }
  Result<> visit(const op::Erase& o) {
    NIMBUS_CHECK(version(o.last, 0));
    return touch({Thing::Record, o.space, o.key}, AfterBulk::Refused);
  }
  Result<> visit(const op::Touch& o) {
    if (o.version) NIMBUS_CHECK(version(*o.version, 1));
    return touch({Thing::Record, o.space, o.key}, AfterBulk::Refused);
  }
  Result<> visit(const op::EraseSpace& o) {
    NIMBUS_CHECK(version(o.last, 0));
    return bulk(Thing::Record, o.space, Repeated::Refused);
  }

  Result<> visit(const op::Append& o) {
    NIMBUS_CHECK(terms(o.terms));
    if (isDropped(o.log)) return malformed("a log cannot be dropped and written in one batch");
    return touch({Thing::Entry, o.log, o.id}, AfterBulk::Allowed);
  }
  Result<> visit(const op::Amend& o) {
    NIMBUS_CHECK(terms(o.terms));
    return touch({Thing::Entry, o.log, o.id}, AfterBulk::Refused);
  }
  Result<> visit(const op::Remove& o) {
    return touch({Thing::Entry, o.log, o.id}, AfterBulk::Refused);
  }
  Result<> visit(const op::RemoveRange& o) { return bulk(Thing::Entry, o.log, Repeated::Allowed); }
  Result<> visit(const op::RemoveTerm& o) {
    NIMBUS_CHECK(terms({o.term}));
    return bulk(Thing::Entry, o.log, Repeated::Allowed);
  }
  Result<> visit(const op::DropLog& o) {
    NIMBUS_CHECK(bulk(Thing::Entry, o.log, Repeated::Refused));
    dropped_logs_.push_back(o.log);
    return {};
  }

  Result<> lease(const std::string& id) {
    return touch({Thing::Lease, {}, id}, AfterBulk::Allowed);
  }
  Result<> visit(const op::Acquire& o) {
    if (o.holder.empty()) return malformed("a lease needs a holder");
    return lease(o.lease);
  }
  Result<> visit(const op::Renew& o) { return lease(o.lease); }
  Result<> visit(const op::Release& o) { return lease(o.lease); }

  Result<> item(const std::string& queue, const std::string& id) {
    return touch({Thing::Item, queue, id}, AfterBulk::Allowed);
  }
  Result<> visit(const op::Push& o) { return item(o.queue, o.id); }
  Result<> visit(const op::Join& o) { return item(o.queue, o.id); }
  Result<> visit(const op::Defer& o) { return item(o.queue, o.id); }
  Result<> visit(const op::Complete& o) { return item(o.queue, o.id); }
  Result<> visit(const op::Park& o) { return item(o.queue, o.id); }
  Result<> visit(const op::Revive& o) { return item(o.queue, o.id); }

  Result<> visit(const op::Take& o) {
    return touch({Thing::Limiter, {}, o.limiter}, AfterBulk::Allowed);
  }
  Result<> visit(const op::DropPartition&) {
    partition_dropped_ = true;
    return {};
  }

  Result<> visit(const require::RecordVersion& c) const {
    NIMBUS_CHECK(name("a space", c.space));
    return name("a key", c.key);
  }
  Result<> visit(const require::SpaceWithin& c) const { return name("a space", c.space); }
  Result<> visit(const require::LogEndsAt& c) const { return name("a log", c.log); }
  Result<> visit(const require::LogUnchanged& c) const { return name("a log", c.log); }
  Result<> visit(const require::QueueWithin& c) const { return name("a queue", c.queue); }

  // Most batches are small, and every commit passes here.
  boost::container::small_vector<Touch, 16> touches_;
  boost::container::small_vector<Bulk, 4> bulks_;
  boost::container::small_vector<std::string_view, 4> dropped_logs_;
  bool partition_dropped_ = false;
};

}  // namespace

Result<> validate(const Batch& batch) {
  if (batch.operations.size() > kMaxOperations) {
    return malformed(fmt::format("a batch has at most {} operations", kMaxOperations));
  }
  if (batch.conditions.size() > kMaxOperations) {
    return malformed(fmt::format("a batch has at most {} conditions", kMaxOperations));
  }
  Survey survey;
  for (std::size_t i = 0; i < batch.conditions.size(); ++i) {
    if (auto added = survey.add(batch.conditions[i]); !added) {
      return std::move(added).error().with("condition", static_cast<std::int64_t>(i));
    }
  }
  for (std::size_t i = 0; i < batch.operations.size(); ++i) {
    if (auto added = survey.add(batch.operations[i]); !added) {
      return std::move(added).error().with("operation", static_cast<std::int64_t>(i));
    }
  }
  for (const Listing& listing : batch.listings) {
    const bool sound = !listing.directory.empty() && listing.directory.size() <= kMaxNameBytes &&
                       !listing.key.empty() && listing.key.size() <= kMaxNameBytes;
    if (!sound) {
      return malformed(fmt::format("a listing's names must have 1 to {} bytes", kMaxNameBytes));
    }
  }
  return survey.finish(batch.operations.size());
}

}  // namespace nimbus::store
