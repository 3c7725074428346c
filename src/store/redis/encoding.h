#pragma once
// Batches and queries as scripts are called with them, and what scripts answer as what it means.

#include "base/result.h"
#include "redis/command.h"
#include "redis/value.h"
#include "store/store.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::store::redis {

// How every script is told the time: empty = by Redis' own clock.
using ScriptTime = std::string;

// Who has the keys. In a cluster entries of directories are written by commands of their own: they
// may be on another node. And a batch must not run while its slot moves from node to node: a key
// that a script has emptied would be looked for on the other one, in the middle of the script. So
// there it declares a key that is never there, for which a server that has only some of the keys
// says TRYAGAIN.
enum class Topology : std::uint8_t { OneServer, Cluster };

struct Encoded {
  const nimbus::redis::Script* script = nullptr;
  std::string bytes;
};

// Whether putScript() can do all of the batch.
bool isPuts(const Batch& batch);
Encoded encodePuts(const CommitOrder& order, const ScriptTime& now, Topology topology);

// Whether appendScript() can.
bool isAppends(const Batch& batch);
Encoded encodeAppends(const CommitOrder& order, const ScriptTime& now, Topology topology);

// A container as Redis keeps it in its meta hash: kind and encoded name.
struct Container {
  char kind = 's';
  std::string name;
};
// What DropPartition has to remove, by the fields of the meta hash.
std::vector<Container> containersOf(const nimbus::redis::Value& fields);

// Any batch. `present`: for DropPartition.
Encoded encodeBatch(const CommitOrder& order, const ScriptTime& now, Topology topology,
                    const std::vector<Container>& present);

Encoded encodeListing(const Listing& listing);

// What became of a batch.
struct Outcomes {
  enum class Kind : std::uint8_t { Applied, Refused, Again, Other };
  Kind kind = Kind::Refused;
  Applied applied;             // Applied
  std::optional<Error> error;  // Refused
};
// Again: DropPartition was called with too few keys. Other: a shorter script leaves it
// to commitScript().
Outcomes decodeOutcomes(const CommitOrder& order, const nimbus::redis::Value& answer);

Encoded encodeQueries(const Partition& partition, const std::vector<Query>& queries,
                      const ScriptTime& now);
Result<std::vector<Answer>> decodeAnswers(const std::vector<Query>& queries,
                                          nimbus::redis::Value answer);

// Of ZRANGEBYLEX: what is behind `after` and begins with `prefix`.
struct LexRange {
  std::string from;
  std::string to;
};
LexRange lexRange(std::string_view after, std::string_view prefix);

std::string timeText(Timestamp time);

}  // namespace nimbus::store::redis
