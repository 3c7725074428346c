#include "cli/templates.h"

#include <array>

namespace nimbus::cli {
namespace {

constexpr std::string_view kCounterPython = R"(def handle(event, state):
    """Counts the visits of a session, and those of all sessions together."""
    print("somebody came")
    return {"visits": state.incr("visits"), "everyone": state.function().incr("visits")}
)";

constexpr std::string_view kCounterNode = R"(const { state } = require('nimbus-state');

// Counts the visits of a session, and those of all sessions together.
exports.handle = async () => {
  console.log('somebody came');
  return { visits: await state.incr('visits'), everyone: await state.function().incr('visits') };
};
)";

constexpr std::string_view kCounterNative = R"(#include <nimbus/function.h>

// Counts the visits of a session.
nimbus::Json handle(const nimbus::Json& event, nimbus::State& state) {
  return nimbus::Json::object({{"visits", state.incr("visits")}});
}
)";

constexpr std::string_view kCartPython = R"(AN_HOUR = 3600


def handle(event, state):
    """A shopping cart: the session is the customer."""
    event = event or {}
    items = state.get("items", {})
    action = event.get("action", "show")
    if action == "add":
        items[event["item"]] = items.get(event["item"], 0) + event.get("quantity", 1)
    elif action == "remove":
        items.pop(event["item"], None)
    elif action != "show":
        return {"status_code": 400, "body": {"error": f'there is no action "{action}"'}}
    state.set("items", items, ttl=AN_HOUR)
    return {"items": items}
)";

constexpr std::string_view kCartNode = R"(const { state } = require('nimbus-state');

const AN_HOUR = 3600;

// A shopping cart: the session is the customer.
exports.handle = async (event) => {
  const { action = 'show', item, quantity = 1 } = event ?? {};
  const items = await state.get('items', {});
  if (action === 'add') items[item] = (items[item] ?? 0) + quantity;
  else if (action === 'remove') delete items[item];
  else if (action !== 'show') return { status_code: 400, body: { error: `there is no action "${action}"` } };
  await state.set('items', items, AN_HOUR);
  return { items };
};
)";

constexpr std::string_view kChatPython = R"(KEPT = 20  # messages


def ask_model(history):
    """Put the call of a model here; it gets the whole conversation."""
    return f"You said: {history[-1]['content']}"


def handle(event, state):
    """A conversation with a memory: the session is the conversation."""
    history = state.get("history", [])
    history.append({"role": "user", "content": event["message"]})
    answer = ask_model(history)
    history.append({"role": "assistant", "content": answer})
    state.set("history", history[-KEPT:])
    return {"answer": answer, "messages": len(history)}
)";

constexpr std::string_view kChatNode = R"(const { state } = require('nimbus-state');

const KEPT = 20; // messages

// Put the call of a model here; it gets the whole conversation.
async function askModel(history) {
  return `You said: ${history.at(-1).content}`;
}

// A conversation with a memory: the session is the conversation.
exports.handle = async ({ message }) => {
  const history = await state.get('history', []);
  history.push({ role: 'user', content: message });
  const answer = await askModel(history);
  history.push({ role: 'assistant', content: answer });
  await state.set('history', history.slice(-KEPT));
  return { answer, messages: history.length };
};
)";

constexpr std::string_view kAdd = R"({"action": "add", "item": "apple"})";
constexpr std::string_view kMessage = R"({"message": "hello"})";

constexpr std::array<Template, 7> kTemplates = {{
    {"counter", "python", "main.py", kCounterPython, "{}"},
    {"counter", "node", "main.js", kCounterNode, "{}"},
    {"counter", "native", "main.cpp", kCounterNative, "{}"},
    {"cart", "python", "main.py", kCartPython, kAdd},
    {"cart", "node", "main.js", kCartNode, kAdd},
    {"chat", "python", "main.py", kChatPython, kMessage},
    {"chat", "node", "main.js", kChatNode, kMessage},
}};

constexpr std::string_view kSettings =
    R"(# What the function needs; all of it may be left out. docs/functions.md has the rest.
timeout_ms: 30000
memory_mb: 256
# env:
#   GREETING: hello
# state_config:
#   default_ttl: 3600      # seconds that state is kept after it was written; 0: for ever
)";

}  // namespace

std::span<const Template> templates() {
  return kTemplates;
}

std::string_view templateSettings() {
  return kSettings;
}

}  // namespace nimbus::cli
