#pragma once
// A server as commands see it: they ask, and whatever goes wrong is said on stderr with what to do
// about it.

#include "cli/command.h"
#include "client/client.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::cli {

class Remote {
 public:
  Remote(client::Client client, Context& context, std::optional<std::string> output);

  Context& context() { return context_; }
  client::Client& client() { return client_; }
  // -o json
  bool wantsJson() const { return json_; }

  // The answer if its status is one of success; else nothing, and the reader knows why.
  std::optional<client::Answer> ask(const client::Request& request);
  std::optional<client::Answer> get(std::string target);
  // Sends and, with -o json, prints the answer; else says `done`, unless it is empty.
  Exit change(const client::Request& request, std::string_view done);

  // What an answer, or its absence, says is wrong, on stderr.
  void explain(const Error& error);
  void explain(const client::Answer& answer, std::string_view target);

  // "yes" to `question` on a terminal, or --yes, or nobody there to ask.
  bool mayDestroy(const Arguments& arguments, std::string_view question);

 private:
  std::string hintFor(std::string_view code, const client::Answer& answer, std::string_view target);
  std::string nearestFunction(std::string_view target);

  client::Client client_;
  Context& context_;
  bool json_ = false;
};

enum class DataOption { Usual, TakenForJson };

// --server, --data-dir (also --data, where that is free) and -o.
std::vector<Option> remoteOptions(DataOption data = DataOption::Usual);

// Where the options and the environment say the server is, and the key for it. Nothing if they make
// no sense; `exit` is then the code.
std::optional<Remote> openRemote(const Arguments& arguments, Context& context, Exit& exit);
std::optional<client::Client> openClient(const Arguments& arguments, Context& context, Exit& exit);

// A command that asks a server; its options are added to those of remoteOptions().
using RemoteAction = Exit (*)(Remote& remote, const Arguments& arguments);
Command remoteCommand(std::string words, std::string summary, RemoteAction action,
                      std::vector<Option> options = {}, DataOption data = DataOption::Usual);

client::Request post(std::string target, std::string body = {});
client::Request removal(std::string target);

// "/api/v1/functions/ID", and what follows it.
std::string functionPath(const Arguments& arguments, std::string_view rest = {});

Option yesOption();

}  // namespace nimbus::cli
