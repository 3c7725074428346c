#pragma once
// A process that runs one version of one function, as the server sees it.
//
// Single-threaded: every member is called on the executor it was made with, and so is the listener.

#include "base/result.h"
#include "base/task.h"
#include "runtime/frame.h"
#include "runtime/keeper.h"
#include "runtime/launcher.h"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace nimbus::runtime {

enum class Stream : std::uint8_t { Out, Err };

class Instance {
 public:
  // Hears what the instance says. It may be called until run() has ended.
  class Listener {
   public:
    virtual ~Listener() = default;
    // Result, State or Log. The frame is valid during the call.
    virtual void onFrame(Instance& instance, const Frame& frame) = 0;
    // Whole lines that came through descriptor 1 or 2.
    virtual void onOutput(Instance& instance, Stream stream, std::string_view lines) = 0;
    // Nothing comes after this. `why`: how it ended, for people.
    virtual void onEnd(Instance& instance, const std::string& why) = 0;
  };

  // `id` is what clients see (Nimbus-Instance). `keeper` and `listener` must outlive run().
  Instance(std::string id, const boost::asio::any_io_executor& executor, Ends ends, Keeper& keeper,
           Listener& listener);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  const std::string& id() const;

  // Its life: returns when the process is gone and the listener knows. Begin it before load(), keep
  // the instance until it has ended.
  Task<> run();
  // Reads descriptors 1 and 2 until the process is gone. Beside run().
  Task<> listenToOutput();

  // Sends Load and waits for Ready. Unprocessable, with what the interpreter said in the fields
  // `error_type`, `file`, `line` and `trace`, if the function does not load; FunctionCrashed if the
  // process ends instead; Timeout if it does neither. Kills it if it fails.
  Task<Result<>> load(std::string head, std::chrono::milliseconds patience);

  // Frames to be sent, to be appended to with a FrameWriter; then flushSoon() sends them with all
  // others of this turn of the executor.
  std::string& outgoing();
  void flushSoon();

  // The rest is silence: no frame is heard any more, the process is killed.
  void kill(std::string why);

  bool hasEnded() const;

  // Ends it, soon, if all that it has started has, together with it, more memory than it may.
  void checkMemory() const;

  // Its resident memory in bytes; 0 if it cannot be told.
  std::size_t residentBytes() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace nimbus::runtime
