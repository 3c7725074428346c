"""The adapters for agent frameworks, on a real server, by the interfaces the frameworks publish."""

import asyncio
import os
import shutil
import subprocess
import sys
import time
import types

import pytest

from harness import PATIENCE, REPOSITORY

sys.path.insert(0, str(REPOSITORY / "adapters/python"))

from nimbus_adapters.adk import NimbusSessionService  # noqa: E402
from nimbus_adapters.client import Client, NimbusError  # noqa: E402
from nimbus_adapters.langgraph import NimbusSaver  # noqa: E402


@pytest.fixture
def client(server):
    return Client(server.url, server.key)


def environment(server):
    return {**os.environ, "NIMBUS_URL": server.url, "NIMBUS_KEY": server.key, "PYTHONPATH": str(REPOSITORY / "adapters/python"),
            "PYTHONDONTWRITEBYTECODE": "1"}


# ---- ADK


def test_sessions_of_adk(client):
    async def main():
        service = NimbusSessionService(client)
        session = await service.create_session(app_name="adk", user_id="ann", state={"a": 1, "user:b": 2}, session_id="s")
        assert (session.id, session.state) == ("s", {"a": 1, "user:b": 2})
        with pytest.raises(NimbusError) as taken:
            await service.create_session(app_name="adk", user_id="ann", session_id="s")
        assert taken.value.code == "conflict"
        event = {"id": "e1", "author": "user", "invocation_id": "i1", "timestamp": time.time(),
                 "content": {"parts": [{"text": "hi"}]}, "actions": {"state_delta": {"a": 2, "app:c": 3, "temp:d": 4}}}
        assert await service.append_event(session, event) is event
        await service.append_event(session, {"id": "e2", "author": "agent", "partial": True})
        assert session.state == {"a": 2, "user:b": 2, "app:c": 3}
        again = await service.get_session(app_name="adk", user_id="ann", session_id="s")
        assert (again.state, again.events) == (session.state, [event])
        assert again.last_update_time == session.last_update_time
        for i in range(3):
            await service.append_event(again, {"id": f"n{i}", "author": "agent", "timestamp": time.time()})
        config = types.SimpleNamespace(num_recent_events=2, after_timestamp=None)
        recent = await service.get_session(app_name="adk", user_id="ann", session_id="s", config=config)
        assert [e["id"] for e in recent.events] == ["n1", "n2"]
        later = types.SimpleNamespace(num_recent_events=None, after_timestamp=recent.events[0]["timestamp"])
        assert [e["id"] for e in (await service.get_session(
            app_name="adk", user_id="ann", session_id="s", config=later)).events] == ["n1", "n2"]
        other = await service.create_session(app_name="adk", user_id="bob")
        assert other.state == {"app:c": 3}
        assert [s.id for s in (await service.list_sessions(app_name="adk", user_id="ann")).sessions] == ["s"]
        assert len((await service.list_sessions(app_name="adk")).sessions) == 2
        await service.delete_session(app_name="adk", user_id="ann", session_id="s")
        await service.delete_session(app_name="adk", user_id="ann", session_id="s")
        assert await service.get_session(app_name="adk", user_id="ann", session_id="s") is None

    asyncio.run(main())


def test_a_long_session_of_adk_is_read_whole(client):
    async def main():
        service = NimbusSessionService(client)
        session = await service.create_session(app_name="adk-long", user_id="u", session_id="s")
        for first in range(0, 1200, 400):
            events = [{"id": f"e{i}", "author": "a", "content": {"id": f"e{i}"}} for i in range(first, first + 400)]
            client.call("POST", "/apps/adk-long/users/u/sessions/s/events", events)
        again = await service.get_session(app_name="adk-long", user_id="u", session_id=session.id)
        assert [event["id"] for event in again.events] == [f"e{i}" for i in range(1200)]

    asyncio.run(main())


# ---- LangGraph


def checkpoint(number):
    return {"v": 1, "id": f"{number:04}", "channel_values": {"n": number}}


def test_checkpoints_of_langgraph(client):
    saver = NimbusSaver(client, app="graph")
    thread = {"configurable": {"thread_id": "t/1", "checkpoint_ns": ""}}
    assert saver.get_tuple(thread) is None
    assert list(saver.list(thread)) == []
    config = thread
    for number in range(3):
        config = saver.put(config, checkpoint(number), {"step": number}, {})
    assert config["configurable"] == {"thread_id": "t/1", "checkpoint_ns": "", "checkpoint_id": "0002"}
    saver.put_writes(config, [("messages", {"x": 1}), ("__error__", "first")], "task")
    saver.put_writes(config, [("messages", "ignored"), ("__error__", "second")], "task")
    latest = saver.get_tuple(thread)
    assert latest.checkpoint == checkpoint(2)
    assert latest.parent_config["configurable"]["checkpoint_id"] == "0001"
    assert latest.pending_writes == [("task", "messages", {"x": 1}), ("task", "__error__", "second")]
    first = saver.get_tuple({"configurable": {"thread_id": "t/1", "checkpoint_ns": "", "checkpoint_id": "0000"}})
    assert (first.checkpoint, first.metadata, first.parent_config) == (checkpoint(0), {"step": 0}, None)
    saver.put({"configurable": {"thread_id": "t/1", "checkpoint_ns": "sub"}}, checkpoint(9), {"step": 9}, {})
    assert saver.get_tuple(thread).checkpoint == checkpoint(2), "a namespace of its own"
    numbers = lambda **options: [one.checkpoint["id"] for one in saver.list(thread, **options)]
    assert numbers() == ["0002", "0001", "0000"]
    assert numbers(limit=1) == ["0002"]
    assert numbers(before=config) == ["0001", "0000"]
    assert numbers(filter={"step": 1}) == ["0001"]
    assert len(list(saver.list(None))) == 4
    assert asyncio.run(saver.aget_tuple(thread)).checkpoint == checkpoint(2)
    saver.delete_thread("t/1")
    assert saver.get_tuple(thread) is None


# ---- Node


NODE_TEST = """
const assert = require('node:assert/strict');
const { NimbusChatHistory } = require(process.argv[1]);
(async () => {
  const history = new NimbusChatHistory({ app: 'chat', user: 'ann/b', session: 's:1' });
  assert.deepEqual(await history.getMessages(), []);
  await history.addUserMessage('hello');
  await history.addAIMessage('hi');
  await history.addMessage({ toDict: () => ({ type: 'tool', data: { content: '{}', id: 7 } }) });
  assert.deepEqual((await history.getMessages()).map((m) => m.data.content), ['hello', 'hi', '{}']);
  assert.deepEqual((await history.getMessages(2)).map((m) => m.type), ['ai', 'tool']);
  const many = Array.from({ length: 400 }, (_, i) => ({ type: 'human', data: { content: String(i) } }));
  for (let i = 0; i < 3; i++) await history.addMessages(many, { id: 'batch' + i });
  await history.addMessages(many, { id: 'batch2' });
  assert.equal((await history.getMessages()).length, 1203);
  const revived = new NimbusChatHistory({ app: 'chat', user: 'ann/b', session: 's:1', revive: (all) => all.length });
  assert.equal(await revived.getMessages(5), 5);
  await history.clear();
  await history.clear();
  assert.deepEqual(await history.getMessages(), []);
})().catch((error) => { console.error(error); process.exit(1); });
"""


def test_chat_history_in_node(server):
    node = shutil.which("node") or shutil.which("nodejs")
    done = subprocess.run([node, "-e", NODE_TEST, str(REPOSITORY / "adapters/node/chat_history.js")],
                          env=environment(server), capture_output=True, text=True, timeout=2 * PATIENCE)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("example, printed", [
    ("adk_sessions.py", "{'step': 2, 'user:name': 'Ann'} 1"),
    ("langgraph_checkpoints.py", "[('task-1', 'messages', 'hi Alice')]"),
    ("chat_history.js", "ai: On its way."),
])
def test_the_examples_run(server, example, printed):
    program = [shutil.which("node") or "nodejs"] if example.endswith(".js") else ["/usr/bin/python3"]
    done = subprocess.run([*program, str(REPOSITORY / "adapters/examples" / example)], env=environment(server),
                          capture_output=True, text=True, timeout=2 * PATIENCE)
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout
