"""API keys: made, shown once, limited to scopes and sessions, and gone at once when they are deleted."""

import itertools
import json
import re
import sqlite3
import threading
import time
import urllib.parse

import pytest

from harness import PATIENCE, Server

COUNTER = "def handle(event, state):\n    print('called')\n    return state.incr('n')\n"
SCOPES = [
    "admin", "functions:read", "functions:write", "invoke", "sessions:read", "sessions:write", "events:read",
    "events:write", "flows:read", "flows:write", "cron:read", "cron:write", "devices:admin", "metrics:read",
]


def make(server, *scopes, **more):
    answer = server.api("POST", "/keys", {"name": "test", "scopes": list(scopes), **more})
    assert answer.status == 201, answer.text
    return answer.json


def ask(server, key, method, path, body=None, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    headers["Authorization"] = f"Bearer {key}"
    return server.request(method, "/api/v1" + path, headers, None if body is None else json.dumps(body).encode())


@pytest.fixture(scope="module")
def counting(server):
    server.deploy("counter", COUNTER)
    server.deploy("other", COUNTER)
    return server


# ---- making, listing, showing, deleting


def test_a_key_is_shown_once_and_never_again(server):
    made = make(server, "metrics:read", name="graphs")
    assert re.fullmatch(r"nk_[0-9a-z]{16}_[0-9a-z]{50}", made["key"])
    assert made["id"] in made["key"]
    assert made["name"] == "graphs" and made["scopes"] == ["metrics:read"]
    assert made["expires_at"] is None and made["session_prefix"] is None and made["rate_limit"] == 600
    assert server.get("/metrics", key=made["key"]).status == 200

    shown = server.api("GET", f"/keys/{made['id']}")
    assert shown.status == 200
    del made["key"]
    assert shown.json == made
    listed = server.api("GET", "/keys?limit=1000")
    assert made in listed.json["items"]
    secret = re.compile(r"nk_[0-9a-z]{16}_|hash")
    assert not secret.search(listed.text) and not secret.search(shown.text)


def test_keys_are_listed_in_pages(tmp_path):
    with Server(tmp_path) as server:
        ids = sorted(make(server, "invoke")["id"] for _ in range(5))
        seen, cursor = [], ""
        while cursor is not None:
            page = server.api("GET", f"/keys?limit=2&cursor={cursor}").json
            assert len(page["items"]) <= 2
            seen += [key["id"] for key in page["items"]]
            cursor = page["next_cursor"]
        assert seen == ids
        assert server.api("GET", "/keys?limit=0").status == 400


def test_every_scope_can_be_given_and_comes_back(server):
    made = make(server, *SCOPES, "invoke:counter")
    assert made["scopes"] == sorted([*SCOPES, "invoke:counter"])


@pytest.mark.parametrize("body, word", [
    ({"scopes": ["invoke"]}, "name"),
    ({"name": "x"}, "scopes"),
    ({"name": "x", "scopes": []}, "scopes"),
    ({"name": "x", "scopes": ["root"]}, "functions:write"),
    ({"name": "x", "scopes": ["invoke"], "scope": "y"}, "scope"),
    ({"name": "x", "scopes": ["invoke"], "session_prefix": ""}, "session_prefix"),
    ({"name": "x", "scopes": ["invoke"], "rate_limit": -1}, "rate_limit"),
    ({"name": "x", "scopes": ["invoke"], "expires_at": "tomorrow"}, "expires_at"),
    ({"name": "x", "scopes": ["invoke"], "expires_at": "2001-01-01T00:00:00Z"}, "expires_at"),
    ([], "object"),
])
def test_what_is_wrong_with_a_key_is_named(server, body, word):
    answer = server.api("POST", "/keys", body)
    assert answer.status == 400
    assert answer.json["code"] == "invalid_argument"
    assert word in answer.text


def test_what_is_not_there_is_not_found(server):
    for method in ("GET", "DELETE"):
        answer = server.api(method, "/keys/0000000000000000")
        assert answer.status == 404 and answer.json["code"] == "not_found"


def test_only_administrators_manage_keys(server):
    key = make(server, *[scope for scope in SCOPES if scope != "admin"])["key"]
    for method, path in (("GET", "/keys"), ("POST", "/keys"), ("DELETE", "/keys/x"), ("GET", "/audit")):
        answer = ask(server, key, method, path)
        assert answer.status == 403 and answer.json["scope"] == "admin"
    assert ask(server, make(server, "admin")["key"], "GET", "/keys").status == 200


def test_keys_are_stored_as_hashes_only_and_survive_a_kill(tmp_path):
    with Server(tmp_path) as server:
        made = make(server, "metrics:read")
    with Server(tmp_path) as server:
        assert server.get("/metrics", key=made["key"]).status == 200
    files = [file for file in (tmp_path / "data").rglob("*") if file.is_file() and file.name != "admin.key"]
    secret = made["key"].rsplit("_", 1)[1].encode()
    assert any(made["id"].encode() in file.read_bytes() for file in files)
    assert not any(secret in file.read_bytes() for file in files)


def test_an_expired_key_is_refused(server):
    expires = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3))
    key = make(server, "metrics:read", expires_at=expires, rate_limit=0)["key"]
    deadline = time.monotonic() + PATIENCE
    while server.get("/metrics", key=key).status == 200:
        assert time.monotonic() < deadline
    answer = server.get("/metrics", key=key)
    assert answer.status == 401 and "expired" in answer.json["detail"]


# ---- deletion


def test_no_server_accepts_a_key_after_its_deletion_is_answered(tmp_path):
    """Both ask with the key all the time; what is sent after the answer must be refused, always."""
    with Server(tmp_path) as first, Server(tmp_path) as second:
        for deleter, _ in zip(itertools.cycle((first, second)), range(6)):
            made = make(deleter, "metrics:read", rate_limit=0)
            deleted_at = [float("inf")]
            late, accepted = [], [0]

            def hammer(server):
                connection = server.connect()
                while deleted_at[0] == float("inf") or time.monotonic() < deleted_at[0] + 0.5:
                    sent = time.monotonic()
                    connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {made['key']}"})
                    answer = connection.getresponse()
                    answer.read()
                    accepted[0] += answer.status == 200
                    if sent > deleted_at[0]:
                        late.append(answer.status)
                connection.close()

            threads = [threading.Thread(target=hammer, args=(server,)) for server in (first, second)]
            for thread in threads:
                thread.start()
            while accepted[0] < 10 and all(thread.is_alive() for thread in threads):
                time.sleep(0.001)
            assert deleter.api("DELETE", f"/keys/{made['id']}").status == 204
            deleted_at[0] = time.monotonic()
            for thread in threads:
                thread.join(PATIENCE)
            assert accepted[0] >= 10
            assert late and set(late) == {401}


def test_a_key_works_on_another_server_as_soon_as_it_is_made(tmp_path):
    with Server(tmp_path) as first, Server(tmp_path) as second:
        assert second.get("/metrics", key=make(first, "metrics:read")["key"]).status == 200
        for _ in range(10):
            assert second.get("/metrics", key=make(first, "metrics:read")["key"]).status == 200


# ---- scopes


def operations(server):
    """Every route the server has, with the scope it needs."""
    for path, methods in server.get("/openapi.json").json["paths"].items():
        for method, operation in methods.items():
            if isinstance(operation, dict) and "responses" in operation:
                yield method.upper(), re.sub(r"\{[^}]*\}", "x", path), operation.get("x-required-scope")


def test_every_route_with_a_scope_is_closed_without_a_key_and_without_the_scope(server):
    routes = list(operations(server))
    closed = [route for route in routes if route[2]]
    assert len(closed) > 20
    public = {path for _, path, scope in routes if not scope}
    assert public == {"/", "/docs", "/docs/docs.js", "/docs/docs.css", "/openapi.json", "/health", "/health/live",
                      "/health/ready", "/api/v1/devices/pair", "/api/v1/devices/pair/x"}
    keys = {scope: make(server, *[s for s in SCOPES if s not in (scope, "admin")], rate_limit=0)["key"]
            for scope in {scope for _, _, scope in closed}}
    for method, path, scope in closed:
        answer = server.request(method, path)
        assert answer.status == 401, (method, path)
        assert method == "HEAD" or answer.json["code"] == "unauthenticated"
        answer = server.request(method, path, {"Authorization": f"Bearer {keys[scope]}"})
        assert answer.status == 403, (method, path, answer.text)
        assert answer.json["code"] == "forbidden" and scope in answer.json["detail"]


def test_a_scope_opens_what_it_names(counting):
    key = make(counting, "invoke:counter", "sessions:read")["key"]
    path = "/functions/counter/invoke?session_key=scoped"
    assert ask(counting, key, "POST", path, {"payload": 1}).status == 200
    answer = ask(counting, key, "POST", "/functions/other/invoke", {"payload": 1})
    assert answer.status == 403 and "invoke" in answer.json["detail"]
    assert ask(counting, key, "GET", "/functions/counter/state/scoped/n").text == "1"
    answer = ask(counting, key, "PUT", "/functions/counter/state/scoped/n", 5)
    assert answer.status == 403 and answer.json["scope"] == "sessions:write"
    assert ask(counting, key, "GET", "/functions/counter").status == 403


# ---- sessions


def test_a_key_with_a_prefix_reaches_no_other_session(counting):
    key = make(counting, "invoke", "sessions:read", "sessions:write", "functions:read",
               session_prefix="t1:", rate_limit=0)["key"]
    for session in ("t1:a", "t1:b", "t1", "t2:a", "t1.x", "", "s"):
        if session:
            assert counting.invoke("counter", session=session).status == 200

    def status(method, path, body=None, **headers):
        return ask(counting, key, method, path, body, **headers).status

    invoke = "/functions/counter/invoke"
    assert status("POST", invoke + "?session_key=t1:a", {}) == 200
    assert status("POST", invoke, {"session_key": "t1:a"}) == 200
    assert status("POST", invoke, {}, Nimbus_Session_Key="t1:a") == 200
    assert status("POST", invoke, {}) == 403, "without a session it would be _default"
    for other in ("t2:a", "t1", "T1:a", " t1:a", "_default"):
        quoted = urllib.parse.quote(other, safe="")
        assert status("POST", f"{invoke}?session_key={quoted}", {}) == 403, other
        assert status("POST", invoke, {"session_key": other}) == 403
        for method, path, body in (
            ("GET", "sessions/{}", None), ("DELETE", "sessions/{}", None), ("GET", "state/{}", None),
            ("GET", "state/{}/n", None), ("PUT", "state/{}/n", 1), ("POST", "state/{}/n/incr", {}),
            ("DELETE", "state/{}", None),
        ):
            assert status(method, "/functions/counter/" + path.format(quoted), body) == 403, (method, path, other)
    assert status("POST", invoke, {}, Nimbus_Session_Key="t2:a") == 403
    assert status("POST", invoke + "?session_key=t1:a", {"session_key": "t2:a"}) == 400

    assert status("GET", "/functions/counter/sessions/t1:a") == 200
    assert status("GET", "/functions/counter/state/t1%3Aa/n") == 200
    assert status("PUT", "/functions/counter/state/t1:a/n", 7) == 200
    assert status("DELETE", "/functions/counter/sessions/t1:b") == 204
    assert status("GET", "/functions/counter/function-state") == 403, "it is of all sessions"
    assert status("GET", "/functions/counter/logs") == 403, "they are of all sessions"
    assert status("GET", "/functions/counter") == 200
    answer = ask(counting, key, "GET", "/functions/counter/sessions/t2:a")
    assert answer.json["code"] == "forbidden" and answer.json["session_prefix"] == "t1:"


def test_a_key_with_a_prefix_lists_only_its_sessions(counting):
    for session in ("p", "p/", "p/1", "p/2", "p/3", "p0", "q/1"):
        assert counting.invoke("counter", session=session).status == 200
    key = make(counting, "sessions:read", session_prefix="p/")["key"]
    seen, cursor = [], ""
    while cursor is not None:
        page = ask(counting, key, "GET", f"/functions/counter/sessions?limit=2&cursor={cursor}").json
        seen += [session["session_key"] for session in page["items"]]
        cursor = page["next_cursor"]
    assert seen == ["p/", "p/1", "p/2", "p/3"]
    forged = "q".encode().hex()
    assert ask(counting, key, "GET", f"/functions/counter/sessions?cursor={forged}").json["items"] == []


def test_an_administrators_key_with_a_prefix_is_no_way_around_it(server):
    key = make(server, "admin", session_prefix="t1:")["key"]
    for method, path in (("POST", "/keys"), ("GET", "/keys"), ("PUT", "/functions/x"), ("GET", "/audit")):
        assert ask(server, key, method, path, {}).status == 403


# ---- what must not be anywhere


def test_secrets_are_in_no_log_and_no_record(tmp_path):
    with Server(tmp_path, "--set", "log.level=debug", "--set", "server.access_log=true") as server:
        made = make(server, "metrics:read")
        secret = made["key"].rsplit("_", 1)[1]
        wrong = made["key"][:-8] + "wrong000"
        assert server.get("/metrics", key=made["key"]).status == 200
        assert server.get("/metrics", key=wrong).status == 401
        assert server.get("/api/v1/keys", key=made["key"]).status == 403
        assert server.api("DELETE", f"/keys/{made['key']}").status == 404
        assert server.get(f"/api/v1/keys/{made['key']}").status == 401
        audit = server.api("GET", "/audit?limit=1000").text
        assert server.api("DELETE", f"/keys/{made['id']}").status == 204
        assert secret[:20] not in audit and made["id"] in audit
        assert secret not in server.api("GET", "/keys").text
        assert server.key[3:] not in audit
        server.stop()
    assert secret not in (tmp_path / "log").read_text().replace(f"/api/v1/keys/{made['key']}", "")
    assert len(sqlite3.connect(tmp_path / "data" / "nimbus.db").execute("pragma quick_check").fetchall()) == 1
    stored = b"".join(file.read_bytes() for file in (tmp_path / "data").glob("nimbus.db*"))
    assert secret.encode() not in stored
