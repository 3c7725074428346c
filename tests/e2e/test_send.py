"""send(): a function has others called, with the commit of its own call."""

import time

import pytest

from harness import Server

RECEIVE = """
def handle(event, state, context):
    state.set("got", state.get("got", []) + [event], ttl=-1)
"""
SEND = {
    "python": """
from nimbus import send
def handle(event, state):
    for n in range(event["count"]):
        send("receive", event.get("to"), {"n": n, "text": "\\u00e9"}, delay=event.get("delay", 0))
    if event.get("fail"): raise ValueError("no")
    state.set("sent", event["count"])
""",
    "node": """
const { send } = require('nimbus-state');
exports.handle = async (event, state) => {
  for (let n = 0; n < event.count; ++n) await send('receive', event.to ?? null, { n, text: '\\u00e9' }, event.delay ?? 0);
  if (event.fail) throw new Error('no');
  await state.set('sent', event.count);
};
""",
    "native": """
#include <nimbus/function.h>
#include <stdexcept>
void handle(const nimbus::Json& event, nimbus::State& state) {
  const auto to = event["to"].isNull() ? std::nullopt : std::optional(event["to"].asString());
  for (int n = 0; n < event["count"].asInt(); ++n) {
    state.send("receive", to, nimbus::Json::Object{{"n", n}, {"text", "\\u00e9"}}, event["delay"].asDouble(0));
  }
  if (event["fail"].asBool(false)) throw std::runtime_error("no");
  state.set("sent", event["count"]);
}
""",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("send")) as server:
        server.deploy("receive", RECEIVE)
        yield server


def until_got(server, session, count, patience=30):
    deadline = time.monotonic() + patience
    while True:
        got = server.api("GET", f"/functions/receive/state/{session}/got")
        if got.status == 200 and len(got.json) >= count:
            return got.json
        assert time.monotonic() < deadline, got.text


@pytest.mark.parametrize("runtime", ["python", "node", "native"])
def test_what_is_sent_arrives_once_and_in_order(server, runtime):
    server.deploy("send", SEND[runtime], runtime=runtime)
    to = f"to {runtime}".replace(" ", "-")
    assert server.invoke("send", {"count": 5, "to": to}, session="s").status == 200
    assert until_got(server, to, 5) == [{"n": n, "text": "é"} for n in range(5)]
    assert server.invoke("send", {"count": 1, "to": to, "fail": True}, session="s").status == 500
    assert server.invoke("send", {"count": 1, "to": to}).status == 200, "from a stateless call"
    assert len(until_got(server, to, 6)) == 6, "what a failed call sent is dropped"


def test_a_delay_and_a_stateless_receiver(server):
    server.deploy("send", SEND["python"])
    begun = time.monotonic()
    server.invoke("send", {"count": 1, "to": "delayed", "delay": 0.5}, session="s")
    until_got(server, "delayed", 1)
    assert time.monotonic() - begun >= 0.5
    request = server.invoke("send", {"count": 1}, session="s").headers["Nimbus-Request-Id"]
    deadline = time.monotonic() + 30
    while True:
        shown = server.api("GET", f"/invocations/{request}.1.1?wait_ms=1000")
        if shown.status == 200 and shown.json["status"] == "succeeded":
            break
        assert time.monotonic() < deadline, shown.text
    assert shown.json["session_key"] is None and shown.json["function_id"] == "receive"


def test_an_asynchronous_call_sends_too(server):
    server.deploy("send", SEND["python"])
    for session in ("s", None):
        to = f"async-{session}"
        server.invoke("send", {"count": 3, "to": to}, session=session, mode="async")
        assert [one["n"] for one in until_got(server, to, 3)] == [0, 1, 2]


def test_a_receiver_that_is_not_there_fails_the_call(server):
    server.deploy("lost", "from nimbus import send\ndef handle(event, state):\n  state.set('x', 1)\n  send('nobody', 's', 1)")
    answer = server.invoke("lost", None, session="s")
    assert (answer.status, answer.json["code"], answer.json["error"]["type"]) == (500, "function_error", "SendError")
    assert server.api("GET", "/functions/lost/state/s/x").status == 404


def test_what_has_no_receiver_any_more_has_failed_and_can_be_replayed_to_the_next(tmp_path):
    with Server(tmp_path) as server:
        server.deploy("receive", RECEIVE, queue={"max_per_session": 1})
        server.deploy("send", SEND["python"])
        server.invoke("receive", 0, session="full")
        server.api("POST", "/functions/receive/sessions/full/pause")
        while server.invoke("receive", 0, session="full", mode="async").status != 429:
            pass
        sent = server.invoke("send", {"count": 1, "to": "full"}, session="s")
        assert sent.status == 200
        request_id = f"{sent.json['request_id']}.1.1"
        assert server.api("GET", f"/invocations/{request_id}").status == 404  # it waits for room
        assert server.api("DELETE", "/functions/receive").status == 204
        deadline = time.monotonic() + 30
        while (shown := server.api("GET", f"/invocations/{request_id}")).status == 404:
            assert time.monotonic() < deadline
        assert (shown.json["status"], shown.json["error"]["code"]) == ("failed", "not_found")
        assert server.api("POST", f"/invocations/{request_id}/replay").status == 404
        server.deploy("receive", RECEIVE)
        assert server.api("POST", f"/invocations/{request_id}/replay").status == 202
        assert until_got(server, "full", 1) == [{"n": 0, "text": "\u00e9"}]
        shown = server.api("GET", f"/invocations/{request_id}?wait_ms=10000").json
        assert shown["status"] == "succeeded"
        refused = server.api("POST", f"/invocations/{request_id}/replay")
        assert (refused.status, refused.json["code"]) == (409, "conflict")
