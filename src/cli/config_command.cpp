#include "cli/backend.h"
#include "cli/commands.h"
#include "cli/configuration.h"

#include <ostream>

namespace nimbus::cli {
namespace {

Exit check(const Arguments& arguments, Context& context) {
  const Exit loaded = loadConfiguration(arguments, context);
  if (loaded != Exit::Ok) return loaded;
  for (const auto& warning : context.backend.settings().warnings()) {
    context.warning(warning.text());
  }
  context.out << "the configuration is sound\n";
  return Exit::Ok;
}

Exit show(const Arguments& arguments, Context& context) {
  const Exit loaded = loadConfiguration(arguments, context);
  if (loaded != Exit::Ok) return loaded;
  context.out << context.backend.settings().show();
  return Exit::Ok;
}

constexpr std::string_view kReferenceHead =
    R"(# Configuration

<!-- Made by `nimbus config reference`; a test compares. Change src/server/config.cpp instead. -->

A server needs no configuration. What can be set comes from, each winning over those before it:

1. the defaults below;
2. a YAML file: `nimbus serve --config nimbus.yaml`;
3. environment variables: `server.listen` is `NIMBUS_SERVER__LISTEN`, a dot becoming two
   underscores; case does not matter; a variable without two underscores is no setting;
4. the command line: `--set server.listen=127.0.0.1:9000`, and options with names of their own,
   such as `--listen`.

```yaml
server:
  listen: 127.0.0.1:9000
  data: /var/lib/nimbus
log:
  level: warn
```

`nimbus config check` finds mistakes and says where they stand; `nimbus config show` prints what
holds and where each value is from, with secrets masked. A name that does not exist is a mistake,
and the answer names the nearest one that does.

Times ending in `_ms` are milliseconds, others seconds, fractions allowed. Sizes are bytes, or have
a unit: `64KiB`, `1MiB`, `2GiB`.

What is marked *not in effect yet* is accepted and checked because its name is promised, and does
nothing until the part of the server it is for is there.

## Settings
)";

Exit reference(const Arguments& /*arguments*/, Context& context) {
  context.out << kReferenceHead << context.backend.settings().reference();
  return Exit::Ok;
}

}  // namespace

std::vector<Command> configCommands() {
  Command group;
  group.words = "config";
  group.summary = "Check and show the configuration";

  Command checking;
  checking.words = "config check";
  checking.summary = "Find mistakes in the configuration";
  checking.examples = {{"nimbus config check --config nimbus.yaml", ""}};
  checking.options = configurationOptions();
  checking.run = check;

  Command showing;
  showing.words = "config show";
  showing.summary = "Print what holds and where each value is from";
  showing.examples = {{"nimbus config show --config nimbus.yaml", ""},
                      {"NIMBUS_LOG__LEVEL=warn nimbus config show", ""}};
  showing.options = configurationOptions();
  showing.run = show;

  Command referring;
  referring.words = "config reference";
  referring.summary = "Print docs/configuration.md";
  referring.hidden = true;
  referring.run = reference;

  return {group, checking, showing, referring};
}

}  // namespace nimbus::cli
