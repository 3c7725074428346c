"""nimbus events migrate --from-v1: a real Redis with the old layout, into servers on both stores."""

import base64
import json
import subprocess

import pytest

from harness import Server, nimbus
from redis_server import Redis

FORMS = {"plain": ("sess:{0}:{1}", "event:{0}:{1}:{2}"), "both": ("sess:{{{0}}}:{{{1}}}", "event:{{{0}}}:{{{1}}}:{2}"),
         "app": ("sess:{{{0}}}:{1}", "event:{{{0}}}:{1}:{2}"), "all": ("sess:{{{0}}}:{{{1}}}", "event:{{{0}}}:{{{1}}}:{{{2}}}")}


@pytest.fixture
def v1(tmp_path):
    with Redis(tmp_path / "v1") as server:
        yield server


@pytest.fixture(params=["sqlite", "redis"])
def server(request, tmp_path):
    (tmp_path / "server").mkdir()
    if request.param == "sqlite":
        with Server(tmp_path / "server") as running:
            yield running
        return
    with Redis(tmp_path / "store") as store, Server(tmp_path / "server", "--store", store.url) as running:
        yield running


def fill(redis, *commands):
    """Many commands at once, as they are: through the protocol, not through a shell."""
    data = b""
    for command in commands:
        words = [str(word).encode() for word in command]
        data += b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
    done = subprocess.run(["redis-cli", "-p", str(redis.port), "--pipe"], input=data, capture_output=True)
    assert b"errors: 0" in done.stdout, done.stdout


def event(number, request="r1", **more):
    return json.dumps({"id": f"e{number}", "requestID": request, "invocationId": f"i{number % 3}", "author": "user",
                       "timestamp": f"2025-03-01T10:00:00.{number:09}Z", "big": 12345678901234567890, "empty": [],
                       **more}, indent=1)


def session(redis, form, app, user, sid, events, state=None, updated="2025-03-01T10:00:00Z"):
    hash_form, set_form = FORMS[form]
    value = json.dumps({"id": sid, "state": state or {}, "createdAt": "2025-01-01T00:00:00Z", "updatedAt": updated})
    commands = [["HSET", hash_form.format(app, user), sid, value]]
    commands += [["ZADD", set_form.format(app, user, sid), score, member] for score, member in events]
    fill(redis, *commands)


def migrate(server, v1, *arguments):
    done = nimbus("events", "migrate", "--from-v1", v1.url, "--server", server.url, "--data-dir", str(server.data), "-o", "json",
                  *arguments, timeout=120)
    return done, json.loads(done.stdout) if done.stdout.startswith("{") else None


def digest(redis):
    return redis.ask("DEBUG", "DIGEST")


@pytest.mark.parametrize("form", FORMS)
def test_sessions_and_events_of_every_form_arrive_whole(server, v1, form):
    members = [event(i, f"r{i // 4}") for i in range(1200)]
    session(v1, form, "chat", "ann", "s1", [(i, member) for i, member in enumerate(members)], {"n": 1, "l": []})
    session(v1, form, "chat", "ann", "s:2", [], updated="2025-03-02T10:00:00Z")
    before = digest(v1)
    done, report = migrate(server, v1, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert report["dry_run"] is True and report["sessions"]["found"] == 2 and report["events"]["found"] == 1200
    assert report["sessions"]["imported"] == 0
    assert server.api("GET", "/apps/chat/sessions").json["items"] == []

    done, report = migrate(server, v1)
    assert done.returncode == 0, done.stderr
    assert report["verified"] is True
    assert report["sessions"] == {"found": 2, "imported": 2, "already_there": 0, "failed": 0}
    assert report["events"] == {"found": 1200, "imported": 1200, "already_there": 0, "failed": 0}
    assert digest(v1) == before, "V1 is only read"
    path = "/apps/chat/users/ann/sessions/s1"
    shown = server.api("GET", path).json
    assert (shown["state"], shown["event_count"], shown["created_at"]) == ({"n": 1, "l": []}, 1200, "2025-01-01T00:00:00.000Z")
    text = server.api("GET", path + "/events?limit=1000").text
    assert all(f'"content":{member}' in text for member in members[:1000]), "byte for byte"
    items = json.loads(text)["items"]
    assert [item["id"] for item in items] == [f"e{i}" for i in range(1000)]
    assert [item["seq"] for item in items] == list(range(1, 1001))
    found = server.api("GET", path + "/events?request_id=r7").json["items"]
    assert [item["id"] for item in found] == ["e28", "e29", "e30", "e31"]
    assert server.api("GET", path + "/check").json == {"issues": []}
    assert [s["id"] for s in server.api("GET", "/apps/chat/sessions").json["items"]] == ["s:2", "s1"], "the last change first"

    done, report = migrate(server, v1)
    assert done.returncode == 0 and report["events"]["already_there"] == 1200 and report["events"]["imported"] == 0
    assert server.api("GET", path).json["event_count"] == 1200


def test_an_interrupted_run_goes_on(server, v1):
    session(v1, "app", "a", "u", "s", [(i, event(i)) for i in range(700)], {"k": base64.b64encode(b'{"x":1}').decode()})
    session(v1, "app", "a", "u", "t", [(i, event(i)) for i in range(5)])
    path = "/apps/a/users/u/sessions/s"
    # As a run leaves it that was killed behind its first append.
    done, _ = migrate(server, v1)
    assert done.returncode == 0
    assert server.api("GET", path).json["state"] == {"k": {"x": 1}}
    server.api("POST", path + "/events:rewind", {"to_seq": 500})
    server.api("DELETE", "/apps/a/users/u/sessions/t")
    done, report = migrate(server, v1)
    assert done.returncode == 0, done.stderr
    assert report["events"] == {"found": 705, "imported": 205, "already_there": 500, "failed": 0}
    assert report["sessions"] == {"found": 2, "imported": 1, "already_there": 1, "failed": 0}
    ids = [e["id"] for e in server.api("GET", path + "/events?limit=1000").json["items"]]
    assert ids == [f"e{i}" for i in range(700)]


def test_what_cannot_be_imported_is_told_and_the_rest_is_imported(server, v1):
    session(v1, "plain", "good", "u", "s", [(1, event(1)), (2, event(1, other=2)), (3, '{"no":"id"}'), (4, "no json")])
    session(v1, "plain", "bad app", "u", "s", [(1, event(1))])
    fill(v1, ["HSET", "sess:good:v", "broken", "no json"], ["ZADD", "event:good:u:gone", 1, event(1)],
         ["SET", "sess:other:string", "x"], ["HSET", "sess:nobody", "f", "v"])
    done, report = migrate(server, v1)
    assert done.returncode == 1
    assert report["sessions"] == {"found": 3, "imported": 1, "already_there": 0, "failed": 2}
    assert report["events"]["failed"] == 1 and report["new_ids"] == 2 and report["orphaned_event_sets"] == 1
    problems = "\n".join(report["problems"])
    for word in ("bad app", "broken", "no json", "event:good:u:gone", "sess:nobody"):
        assert word in problems
    items = server.api("GET", "/apps/good/users/u/sessions/s/events").json["items"]
    assert [item["content"].get("other", item["content"].get("no")) for item in items] == [None, 2, "id"]


def test_counts_that_do_not_agree_are_an_error(server, v1):
    assert server.api("PUT", "/apps/small", {"max_events_per_session": 20}).status == 200
    session(v1, "app", "small", "u", "s", [(i, event(i, f"r{i}")) for i in range(600)])
    done, report = migrate(server, v1)
    assert done.returncode == 1 and report["verified"] is False and report["sessions"]["failed"] == 1
    assert "max_events_per_session" in report["problems"][0]


def test_mistakes_are_told(server, v1):
    common = ("--server", server.url, "--data-dir", str(server.data))
    for words in ((), ("--from-v1", "http://x")):
        assert nimbus("events", "migrate", *words, *common).returncode == 2
    port = v1.port
    v1.kill()
    gone = nimbus("events", "migrate", "--from-v1", f"redis://127.0.0.1:{port}", *common, timeout=90)
    assert gone.returncode == 1 and "V1" in gone.stderr
