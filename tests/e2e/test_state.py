"""State over HTTP, and the programs of the design document."""

import pytest

CART = '''
def handle(event, state):
    action = event.get('action')

    if action == 'add':
        item_id = event.get('item_id')
        cart = state.get('cart') or []
        cart.append(item_id)
        state.set('cart', cart, ttl=3600)
        return {'cart_size': len(cart)}

    elif action == 'get':
        cart = state.get('cart') or []
        return {'cart': cart}

    elif action == 'clear':
        state.delete('cart')
        return {'cart_size': 0}

    elif action == 'checkout':
        cart = state.get('cart') or []
        state.delete('cart')
        return {'order_id': 'order_123', 'items': cart}
'''

COUNTER = '''
const { state } = require('nimbus-state');

async function handle(event) {
    const action = event.action;

    if (action === 'increment') {
        const count = await state.function().incr('global_counter');
        return { count };
    }

    if (action === 'get') {
        const count = await state.function().get('global_counter') || 0;
        return { count };
    }

    if (action === 'reset') {
        await state.function().set('global_counter', 0);
        return { count: 0 };
    }
}

module.exports = { handle };
'''

CHAT = '''
def call_ai_model(history):
    return f"answer {len(history)}"

def handle(event, state):
    user_message = event.get('message')
    history = state.get('conversation_history') or []
    history.append({'role': 'user', 'content': user_message})
    ai_response = call_ai_model(history)
    history.append({'role': 'assistant', 'content': ai_response})
    if len(history) > 20:
        history = history[-20:]
    state.set('conversation_history', history, ttl=1800)
    return {'response': ai_response}
'''


def test_the_cart_of_the_design_document(server):
    server.deploy("cart", CART)

    def call(**event):
        return server.invoke("cart", event, session="user_123").json["body"]

    assert call(action="add", item_id="apple") == {"cart_size": 1}
    assert call(action="add", item_id="pear") == {"cart_size": 2}
    assert call(action="get") == {"cart": ["apple", "pear"]}
    listed = server.api("GET", "/functions/cart/state/user_123").json
    assert [one["key"] for one in listed["keys"]] == ["cart"]
    assert 3500 < listed["keys"][0]["ttl"] <= 3600
    assert listed["total_size"] == listed["keys"][0]["size"] == len('["apple","pear"]')
    assert call(action="checkout") == {"order_id": "order_123", "items": ["apple", "pear"]}
    assert call(action="get") == {"cart": []}
    assert call(action="clear") == {"cart_size": 0}


def test_the_counter_of_the_design_document(server):
    server.deploy("counter", COUNTER, runtime="node")

    def call(action, session):
        return server.invoke("counter", {"action": action}, session=session).json["body"]

    assert call("increment", "a") == {"count": 1}
    assert call("increment", "b") == {"count": 2}
    assert server.invoke("counter", {"action": "increment"}).json["body"] == {"count": 3}
    assert call("get", "c") == {"count": 3}
    assert server.api("GET", "/functions/counter/function-state/global_counter").text == "3"
    assert call("reset", "a") == {"count": 0}
    assert call("get", "b") == {"count": 0}


def test_the_conversation_of_the_design_document(server):
    server.deploy("chat", CHAT)
    for turn in range(15):
        server.invoke("chat", {"message": f"m{turn}"}, session="s")
    history = server.api("GET", "/functions/chat/state/s/conversation_history").json
    assert len(history) == 20
    assert history[-2] == {"role": "user", "content": "m14"}


@pytest.fixture(scope="module", params=["state/s", "function-state"])
def place(request, server):
    server.deploy("admin", "def handle(event, state):\n    return state.keys()\n", state_config={"max_keys": 5})
    server.invoke("admin", session="s")
    return f"/functions/admin/{request.param}"


def test_values_are_set_with_conditions(server, place):
    assert server.api("PUT", place + "/k", "1", If_None_Match="*").json == {"version": 1}
    conflict = server.api("PUT", place + "/k", "2", If_None_Match="*")
    assert (conflict.status, conflict.json["code"], conflict.json["current_version"]) == (412, "version_conflict", 1)
    assert server.api("PUT", place + "/k", "2", If_Match='"1"').json == {"version": 2}
    assert server.api("PUT", place + "/k", "3", If_Match='"1"').status == 412
    got = server.api("GET", place + "/k")
    assert (got.text, got.headers["ETag"]) == ("2", '"2"')
    assert server.api("POST", place + "/k/incr", {"delta": 40}).json == {"value": 42, "version": 3}
    assert server.api("DELETE", place + "?key=k").status == 204
    assert server.api("GET", place + "/k").status == 404
    assert server.api("DELETE", place + "?key=k").status == 404
    assert server.api("PUT", place + "/k", "4").json["version"] > 3
    assert server.api("DELETE", place).status == 204


def test_limits_hold_for_everyone(server, place):
    for n in range(5):
        assert server.api("PUT", f"{place}/k{n}", "0").status == 201
    refused = server.api("PUT", place + "/k5", "0")
    assert (refused.status, refused.json["code"], refused.json["limit"]) == (429, "quota_exceeded", 5)
    large = server.api("PUT", place + "/k0", '"' + "x" * 70000 + '"')
    assert (large.status, large.json["code"]) == (413, "too_large")
    assert server.api("PUT", place + "/k0", "{").json["code"] == "invalid_json"
    assert server.api("PUT", place + "/k0?ttl=-5", "1").status == 400
    assert server.api("POST", place + "/k0/incr", {"delta": "x"}).status == 400
    assert server.api("DELETE", place).status == 204


def test_keys_are_listed_by_pattern_and_in_pages(server, place):
    for key in ("a1", "a2", "b1"):
        server.api("PUT", f"{place}/{key}", "0")
    listed = server.api("GET", place + "?pattern=a*&limit=1").json
    assert [one["key"] for one in listed["keys"]] == ["a1"]
    rest = server.api("GET", place + f"?pattern=a*&cursor={listed['next_cursor']}").json
    assert [one["key"] for one in rest["keys"]] == ["a2"]
    assert rest["next_cursor"] is None
    assert server.api("DELETE", place).status == 204


def test_writes_of_administrators_take_numbers_in_the_sessions_order(server):
    server.deploy("numbers", "def handle(event, state):\n    return state.get('k')\n")
    assert server.invoke("numbers", session="s").headers["Nimbus-Session-Seq"] == "1"
    server.api("PUT", "/functions/numbers/state/s/k", '"set"')
    answer = server.invoke("numbers", session="s")
    assert (answer.json["body"], answer.headers["Nimbus-Session-Seq"]) == ("set", "3")


def test_what_is_not_there_is_404(server):
    server.deploy("empty", "def handle(event): pass\n")
    for path in ("/functions/empty/state/nobody", "/functions/empty/state/nobody/k",
                 "/functions/empty/sessions/nobody", "/functions/nothing/sessions", "/functions/nothing"):
        assert server.api("GET", path).status == 404, path
