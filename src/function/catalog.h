#pragma once
// The functions of this server: deployed, looked up, rolled back, removed.
//
// What is answered as done is durable, and was one atomic commit: a function never has half of a
// deployment. Calls look functions up in memory; changes go to the store first and are then
// published, in the order in which they were committed. Other processes that share the store are
// seen by refresh().

#include "base/ids.h"
#include "base/random.h"
#include "base/result.h"
#include "base/task.h"
#include "function/bundle.h"
#include "function/definition.h"
#include "function/deployed.h"
#include "function/published.h"
#include "function/turns.h"
#include "function/version_info.h"
#include "store/store.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::function {

// Whether code can be loaded; whoever runs functions knows.
class CodeCheck {
 public:
  virtual ~CodeCheck() = default;

  // Unprocessable, with the interpreter's words, if the handler cannot be loaded. The arguments
  // live until the task ends.
  virtual Task<Result<>> check(const Definition& definition, const Bundle& code) = 0;
};

// What a put() did.
struct Put {
  enum class Change : std::uint8_t { Created, Updated, None };

  Definition definition;
  Change change = Change::None;
};

// Any thread, unless a member says otherwise.
class Catalog {
 public:
  // The code of so many versions is kept, the newest.
  static constexpr std::uint64_t kVersionsWithCode = 20;

  // Told of every change that this catalog publishes, with the function as it now is, or nothing if
  // it is gone. Changes come one at a time and in order, on the thread that made them; the callee
  // must not block.
  using Listener =
      std::function<void(const FunctionId& id, const std::shared_ptr<const Deployed>& now)>;

  // `store` and `random` must outlive the catalog; `random` must be safe from any thread.
  Catalog(store::Store& store, Random& random, Defaults defaults);
  // Every task must have ended.
  ~Catalog();
  Catalog(const Catalog&) = delete;
  Catalog& operator=(const Catalog&) = delete;

  // Before the first change; not from two threads at once.
  void subscribe(Listener listener);

  // Reads all functions. Fails if one cannot be understood: a server that forgot one would answer
  // its callers that it does not exist. May be called again, and then tells of what is different.
  Task<Result<>> load();
  // The same for one, after another process may have changed it.
  Task<Result<>> refresh(FunctionId id);

  // Tells other processes that a function was changed, after it was.
  Task<Result<>> announce(FunctionId id);
  // What was announced not too long ago: a number by id that grows each time.
  using Announced = std::map<FunctionId, store::Version>;
  Task<Result<Announced>> announced();
  // What is stored now; nothing if there is none. Publishes nothing.
  Task<Result<std::shared_ptr<const Deployed>>> stored(FunctionId id);

  // Nothing if there is none of that name. Never waits: this is on the path of every call.
  std::shared_ptr<const Deployed> find(std::string_view id) const { return published_.find(id); }
  // By id, those after `after`.
  store::Page<std::shared_ptr<const Deployed>> list(std::size_t limit,
                                                    std::string_view after) const;

  // Creates or updates a function from a body of `PUT /api/v1/functions/{id}`. Other code, another
  // runtime or handler is a new version, with a number that none had in this life of the name, and
  // `check` must accept it first. A body that changes nothing stores nothing.
  //
  // `check` must outlive the task. Its errors are passed on; the others are those of update() and
  // readCode(), and Conflict if others change the function again and again meanwhile.
  Task<Result<Put>> put(FunctionId id, std::string body, CodeCheck& check);

  // Makes code, runtime and handler those of an earlier version. NotFound if there is no such
  // function or version; Conflict if its code is no longer kept.
  Task<Result<Definition>> rollback(FunctionId id, std::uint64_t version);

  // NotFound if there is none. A later function of that name has version 1 again. Sessions and
  // state are not in this partition, and not this catalog's.
  Task<Result<>> remove(FunctionId id);

  // Newest first, those before version `before`, or all; limit 1..store::kMaxPage. NotFound if
  // there is no such function.
  Task<Result<store::Page<VersionInfo>>> versions(FunctionId id, std::size_t limit,
                                                  std::optional<std::uint64_t> before);

  // NotFound if it is not kept; Internal if it is damaged.
  Task<Result<Bundle>> code(FunctionId id, std::string code_hash);

 private:
  struct Upload;
  struct Worker;

  Task<Result<Deployed>> readExisting(FunctionId id);
  Task<Result<Definition>> merge(std::optional<Deployed> before, FunctionId id,
                                 std::shared_ptr<const std::string> body);
  Task<Result<std::shared_ptr<const Upload>>> readUpload(std::shared_ptr<const std::string> body);
  Deployed following(const std::optional<Deployed>& before, Definition wanted);
  Task<Result<>> accept(Definition definition, std::shared_ptr<const Upload> upload,
                        CodeCheck& check);
  Task<Result<>> addNewVersion(store::Batch& batch, Definition definition,
                               std::shared_ptr<const Upload> upload);

  Task<Result<>> commit(FunctionId id, store::Batch batch, std::shared_ptr<Deployed> next);
  Task<Result<>> commitInTurn(FunctionId id, store::Batch batch, std::shared_ptr<Deployed> next);
  Task<Result<>> reread(FunctionId id);
  std::shared_ptr<const Deployed> known(Deployed deployed) const;
  void publish(const FunctionId& id, std::shared_ptr<const Deployed> now);
  void publish(const std::shared_ptr<const Published::Map>& next);
  void tell(const FunctionId& id, const std::shared_ptr<const Deployed>& now) const;

  store::Store& store_;
  Random& random_;
  const Defaults defaults_;
  std::vector<Listener> listeners_;
  Published published_;
  // Held from a commit until it is published, so that the order is the same for both.
  Turns changes_;
  // Where code is unpacked and hashed: it takes too long for a thread that serves others.
  std::unique_ptr<Worker> worker_;
};

}  // namespace nimbus::function
