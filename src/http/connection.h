#pragma once
// One client's connection: reads requests, has them answered in order, writes the answers.
// Private to http/.

#include "http/event_stream.h"
#include "http/lane.h"

#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/intrusive/list_hook.hpp>

#include <memory>
#include <optional>
#include <string>

namespace nimbus::http {

struct OpenListTag;
struct DirtyListTag;
using OpenHook =
    boost::intrusive::list_base_hook<boost::intrusive::tag<OpenListTag>,
                                     boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;
using DirtyHook =
    boost::intrusive::list_base_hook<boost::intrusive::tag<DirtyListTag>,
                                     boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

// Lives as long as its task, which owns it.
class Connection : public OpenHook, public DirtyHook {
 public:
  enum class Role { Serve, TurnAway };

  static void start(std::shared_ptr<Lane> lane, Socket socket, Role role);

  Connection(std::shared_ptr<Lane> lane, Socket socket, Role role);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Ends what has waited too long.
  void sweep(Time now);
  // The server stops: no further request; a stream ends.
  void drain();
  // The server's patience is over.
  void cutOff();
  // Writes what can be written without waiting.
  void flushDirty();

 private:
  enum class Phase {
    Handshake,
    Idle,        // between requests
    Head,        // a head has begun
    Processing,  // our turn: a head is judged, an answer made ready
    Body,        // a body is awaited
    Handling,    // the handler runs
    Writing,
    Streaming,
    Lingering,
  };
  enum class Body { Complete, NeedMore, Refused, Late, Gone };
  enum class Received { Bytes, Parked, Expired, Ended };

  struct Streaming;

  Task<> run();
  Task<> serve();
  Task<> turnAway();

  void awaitRequest();
  Received received(const boost::system::error_code& failure, std::size_t count);
  HeadScanner::Found scanHead();
  // False: the connection is to be closed.
  Task<bool> answerRequest();
  // Before every answer, refusals included. `received`: how much of the request is there.
  void beginRequest(std::size_t received);
  std::optional<Refusal> takeHead();
  // Sets route_, or returns what there is to say instead.
  std::optional<Response> findRoute();
  std::size_t maxBody() const;
  Task<Body> readBody();
  Body takeBody();
  Task<Response> respond(const Route& route);
  Response unrouted(const Router::Match& match) const;
  bool makeRoom();
  void finishRequest();

  bool append(const Response& response);
  Task<bool> sendRest(Response response);
  void report(int status, std::size_t bytes_out);
  // Answers, then closes: nothing after a refused request is believed.
  Task<> refuse(Refusal refusal);
  bool isObserved() const;

  bool flushNow();
  Task<bool> flush();
  Task<bool> flushSlowly();
  Task<bool> writeLarge(std::string_view content);
  Task<> close();

  Task<> stream(Response response);
  Task<std::size_t> sendEvents(Streaming& streaming);
  void watchClient(const std::shared_ptr<Streaming>& streaming);
  void startProducer(const std::shared_ptr<Streaming>& streaming, EventProducer producer);

  Buffer& ahead();
  void watchWhileHandling();
  void onWatched(const boost::system::error_code& failure, std::size_t count);
  Task<> endWatch();

  void heartbeat();
  void endStream();

  void enter(Phase phase, std::chrono::milliseconds patience);
  const ServerOptions& options() const { return lane_->settings().options; }

  const std::shared_ptr<Lane> lane_;
  Socket socket_;
  std::unique_ptr<boost::asio::ssl::stream<Socket&>> tls_;
  boost::asio::cancellation_signal cancel_;
  std::unique_ptr<Workspace> work_;
  std::shared_ptr<Streaming> streaming_;
  std::string peer_address_;

  Time deadline_;
  Time sent_;                      // when a stream last said something
  Time request_time_;              // when the present head was complete; only kept if someone looks
  std::size_t received_size_ = 0;  // head and body of the present request
  std::size_t written_ = 0;        // of work_->out
  boost::asio::steady_timer* unwatched_ = nullptr;  // cancelled when the watch has ended
  const Role role_;
  Phase phase_ = Phase::Idle;
  bool must_close_ = false;     // after the present answer
  bool is_broken_ = false;      // the client is gone
  bool is_expired_ = false;     // set by sweep()
  bool is_parking_ = false;     // set by sweep()
  bool is_cut_off_ = false;     // set by cutOff()
  bool is_watching_ = false;    // a read is under way beside the handler
  bool has_left_ = false;       // while the handler ran
  bool has_unread_ = false;     // closing at once could destroy our last answer
  bool skipped_blank_ = false;  // one empty line before a request is forgiven
  const Route* route_ = nullptr;
};

}  // namespace nimbus::http
