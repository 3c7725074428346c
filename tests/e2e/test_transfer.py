"""`nimbus export`, `import` and `migrate`: everything a server holds, from store to store."""

import json

import pytest

from harness import Server, nimbus
from redis_server import Redis
from terminal import Terminal

CART = """
from nimbus import state, events, send
def handle(event, state, context):
    state.set("raw", {"big": 12345678901234567890, "list": []}, ttl=-1)
    events.append(id=f"e{context.session_seq}", content=event)
    state.function().set("told", event, ttl=-1)
    return context.session_seq
"""


def begun(directory, *arguments):
    directory.mkdir()
    return Server(directory, *arguments)


def run(server, *arguments, **options):
    return nimbus(*arguments, "--server", server.url, "--data-dir", str(server.data), **options)


def fill(server, sessions=12):
    server.deploy("cart", CART, timeout_ms=7000, env={"SECRET": "s"})
    server.deploy("other", "exports.handle = async (event) => event;", runtime="node", state_config={"max_keys": 7})
    for n in range(sessions):
        assert server.invoke("cart", {"n": n}, session=f"s/{n}:é").status == 200
    server.invoke("cart", {}, session="waits")
    assert server.api("POST", "/functions/cart/sessions/waits/pause").status == 200
    assert server.invoke("cart", {"later": True}, session="waits", mode="async").status == 202
    assert server.api("PUT", "/apps/chat", {"max_events_per_session": 100}).status == 200
    assert server.api("POST", "/apps/chat/users/u%2F1/sessions", {"id": "talk", "title": "T", "state": {"k": 1, "app:a": [1], "user:u": 2}}).status == 201
    for n in range(5):
        body = {"id": f"m{n}", "request_id": f"r{n // 2}", "content": {"text": "x" * n}}
        assert server.api("POST", "/apps/chat/users/u%2F1/sessions/talk/events", body).status == 201


def holdings(server):
    """What callers can see, without what belongs to a place or a time."""
    def without(item, *names):
        return {k: v for k, v in item.items() if k not in names}

    seen = {}
    for function in server.api("GET", "/functions").json["items"]:
        seen[function["id"]] = without(function, "created_at", "updated_at", "version")
    for session in server.api("GET", "/functions/cart/sessions?limit=100").json["items"]:
        path = server.api("GET", "/functions/cart/sessions?limit=100")
        assert path.status == 200
        key = session["session_key"]
        quoted = key.replace("/", "%2F").replace(":", "%3A").replace("é", "%C3%A9")
        seen["session " + key] = server.api("GET", f"/functions/cart/state/{quoted}/raw").text
        events = server.api("GET", f"/apps/cart/users/_/sessions/{quoted}/events").json["items"]
        seen["events " + key] = [without(event, "seq", "version") for event in events]
    seen["function state"] = server.api("GET", "/functions/cart/function-state/told").text
    seen["settings"] = server.api("GET", "/apps/chat").json
    seen["app"] = server.api("GET", "/apps/chat/state").json
    seen["user"] = server.api("GET", "/apps/chat/users/u%2F1/state").json
    seen["log"] = without(server.api("GET", "/apps/chat/users/u%2F1/sessions/talk").json, "updated_at", "generation")
    seen["messages"] = server.api("GET", "/apps/chat/users/u%2F1/sessions/talk/events").json["items"]
    return seen


@pytest.fixture
def full(tmp_path):
    with begun(tmp_path / "old") as server:
        fill(server)
        yield server


def until_run(server):
    """The call that waited runs where it was imported."""
    later = server.api("GET", "/invocations?session_key=waits").json["items"]
    assert len(later) == 1
    return server.api("GET", f"/invocations/{later[0]['request_id']}?wait_ms=20000").json


def test_everything_is_written_to_a_file_and_read_by_a_server_with_another_store_and_back(full, tmp_path):
    file = tmp_path / "all.jsonl"
    done = run(full, "export", str(file))
    assert done.returncode == 0, done.stderr
    before = holdings(full)
    with Redis(tmp_path / "redis") as redis, begun(tmp_path / "new", "--store", redis.url) as new:
        done = run(new, "import", str(file))
        assert done.returncode == 0, done.stderr
        assert until_run(new)["body"] == 2
        server_of_waits = holdings(new)
        for name in ("session waits", "events waits", "function state"):
            before.pop(name), server_of_waits.pop(name)  # the waiting call has run there
        assert server_of_waits == before
        again = run(new, "import", str(file))
        assert again.returncode == 1 and "delete it first" in again.stderr and "line " in again.stderr
        again = run(new, "import", str(file), "--skip-existing")
        assert again.returncode == 0 and "14 were there already" in again.stdout, again.stdout

        # And back, from server to server.
        with begun(tmp_path / "back") as back:
            done = run(new, "migrate", "--to", back.url, "--to-data-dir", str(back.data))
            assert done.returncode == 0, done.stderr
            returned, there = holdings(back), holdings(new)
            assert returned == there
            done = run(new, "migrate", "--to", back.url, env={"NIMBUS_TO_KEY": "nk_wrong"})
            assert done.returncode == 1 and "unauthenticated" in done.stderr
            done = run(new, "migrate", "--to", new.url)
            assert done.returncode == 2 and "the same server" in done.stderr
            assert run(new, "migrate").returncode == 2


def test_a_file_that_is_none_or_was_cut_is_noticed(full, tmp_path):
    file = tmp_path / "all.jsonl"
    assert run(full, "export", str(file)).returncode == 0
    lines = file.read_text().splitlines()
    with begun(tmp_path / "new") as new:
        cut = tmp_path / "cut.jsonl"
        cut.write_text("\n".join(lines[:-2]) + "\n")
        done = run(new, "import", str(cut))
        assert done.returncode == 1 and "a part of it is missing" in done.stderr
        cut.write_text("\n".join(lines[:3])[:-20])
        done = run(new, "import", str(cut))
        assert done.returncode == 1 and "line 3" in done.stderr
        cut.write_text("{}\n")
        done = run(new, "import", str(cut))
        assert done.returncode == 1 and "not written by `nimbus export`" in done.stderr
        done = run(new, "import", str(tmp_path / "nothing.jsonl"))
        assert done.returncode == 1 and "cannot be read" in done.stderr
        changed = [json.loads(line) for line in lines]
        session = next(one for one in changed if one.get("kind") == "session")
        session["document"]["state"][0]["value"] = "1"
        cut.write_text("\n".join(json.dumps(one, separators=(",", ":")) for one in changed) + "\n")
        done = run(new, "import", str(cut), "--skip-existing")
        assert done.returncode == 1 and "checksum" in done.stderr
    assert run(full, "export", "/nowhere/at/all").returncode == 1


def test_sessions_of_one_function_go_to_another_with_a_bar_on_a_terminal(full, tmp_path):
    file = tmp_path / "cart.jsonl"
    with Terminal("export", "cart", str(file), "--server", full.url, "--data-dir", str(full.data)) as terminal:
        terminal.expect("exported 13 sessions")
        assert "exporting sessions of cart" in terminal.text
    full.deploy("cart2", CART)
    with Terminal("import", "cart2", str(file), "--server", full.url, "--data-dir", str(full.data)) as terminal:
        terminal.expect("imported 13 sessions")
        assert "importing" in terminal.text
    keys = [s["session_key"] for s in full.api("GET", "/functions/cart2/sessions?limit=100").json["items"]]
    assert len(keys) == 13
