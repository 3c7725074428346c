"""What a key with a session_prefix reaches of event logs: every route that the server says it has."""

import json
from urllib.parse import quote

import pytest

PREFIX = "t1:"
APP = "reach"
BODIES = {
    "post sessions": lambda sid: {"id": sid + "-new"},
    "post sessions/{sid}:fork": lambda sid: {"new_id": sid + "-fork"},
    "put sessions/{sid}/summary": lambda sid: {"text": "x", "last_event_id": "e1"},
}


def ask(server, key, method, path, body=None):
    headers = {"Authorization": f"Bearer {key}"}
    text = None if body is None else json.dumps(body)
    return server.request(method.upper(), "/api/v1" + path, headers, text)


@pytest.fixture(scope="module")
def key(server):
    made = server.api("POST", "/keys", {"name": "t1", "scopes": ["events:read", "events:write"],
                                        "session_prefix": PREFIX, "rate_limit": 0})
    assert made.status == 201, made.text
    for user, sid in (("t1:ann", "s"), ("t2:bob", "s"), ("_", "t1:k"), ("_", "t2:k"), ("t1", "s"), ("x", "t1:s")):
        path = f"/apps/{APP}/users/{quote(user, safe='')}/sessions"
        assert server.api("POST", path, {"id": sid}).status == 201
        assert server.api("POST", f"{path}/{quote(sid, safe='')}/events", {"id": "e1", "content": 1}).status == 201
    return made.json["key"]


def routes(server):
    document = server.get("/openapi.json").json
    found = [(method, path.removeprefix("/api/v1/apps/{app}").lstrip("/"))
             for path, methods in document["paths"].items() if path.startswith("/api/v1/apps/")
             for method in methods if method in ("get", "put", "post", "patch", "delete")]
    assert len(found) > 30
    # Whatever deletes comes last.
    return sorted(found, key=lambda route: (route[0] == "delete", len(route[1]) if route[0] != "delete" else -len(route[1])))


def status(server, key, route, user, sid):
    method, path = route
    rest = path.removeprefix("users/{user}").lstrip("/")
    body = BODIES.get(f"{method} {rest}", lambda _: {"content": 1, "conversations": 1, "to_seq": 1})(sid)
    if rest == "state" or rest.endswith("}/state") or method in ("get", "delete"):
        body = {"k": 1} if method == "patch" else None
    for name, value in (("user", user), ("sid", sid), ("track", "track"), ("event", "e1")):
        path = path.replace("{%s}" % name, quote(value, safe=""))
    if path.endswith("/stream"):
        path = path.removesuffix("/stream") + "/stream?after=x"  # 400 if it gets so far, and nothing to follow
    return ask(server, key, method, f"/apps/{APP}" + ("/" + path if path else ""), body).status


def test_every_route_is_held_to_the_prefix(server, key):
    for route in routes(server):
        names_user, names_session = "{user}" in route[1], "{sid}" in route[1]
        lists = route[0] == "get" and route[1].endswith("sessions")
        makes = route == ("post", "users/{user}/sessions")
        for user, sid in (("t2:bob", "s"), ("t1", "s"), ("x", "t1:s"), ("_", "t2:k")):
            got = status(server, key, route, user, sid)
            assert (got == 200 if lists else got == 403), (route, user, sid, got)
        for user, sid in (("t1:ann", "s"), ("_", "t1:k")):
            got = status(server, key, route, user, sid)
            is_open = lists or makes or (names_user and (names_session or user != "_"))
            assert (got != 403) == is_open, (route, user, sid, got)


def sessions(server, key, path):
    seen, cursor = [], ""
    while cursor is not None:
        page = ask(server, key, "get", f"/apps/{APP}{path}?limit=1&cursor={cursor}").json
        seen += [(item["user_id"], item["id"]) for item in page["items"]]
        cursor = page["next_cursor"]
    return sorted(seen)


def test_lists_show_only_what_is_reached(server, key):
    made = [("t1:cat", "a"), ("t1:cat", "b"), ("_", "t1:z"), ("_", "t3"), ("dog", "t1:no")]
    for user, sid in made:
        path = f"/apps/{APP}/users/{quote(user, safe='')}/sessions"
        assert server.api("POST", path, {"id": sid}).status == 201
    everything = sessions(server, server.key, "/sessions")
    assert set(made) <= set(everything)
    within = [(user, sid) for user, sid in everything if (sid if user == "_" else user).startswith(PREFIX)]
    assert sessions(server, key, "/sessions") == within
    assert sessions(server, key, "/users/_/sessions") == [name for name in within if name[0] == "_"]
    assert sessions(server, key, "/users/t1%3Acat/sessions") == made[:2]
    assert sessions(server, key, "/users/dog/sessions") == []


def test_state_that_others_share_is_not_reached_by_way_of_a_session(server, key):
    for user, sid, state, wanted in (
        ("t1:eve", "s", {"app:x": 1}, 403), ("t1:eve", "s", {"user:x": 1, "x": 1}, 201), ("_", "t1:eve", {"user:x": 1}, 403),
        ("_", "t1:eve", {"x": 1}, 201), ("_", "", {"x": 1}, 403),
    ):
        path = f"/apps/{APP}/users/{quote(user, safe='')}/sessions"
        made = ask(server, key, "post", path, {**({"id": sid} if sid else {}), "state": state})
        assert made.status == wanted, (user, state, made.text)
        if not sid:
            continue
        if wanted == 403:
            assert made.json["session_prefix"] == PREFIX
            continue
        events = f"{path}/{quote(sid, safe='')}/events"
        for delta in ({"app:x": 1}, {"user:x": 1}):
            expected = 201 if user != "_" and "user:x" in delta else 403
            got = ask(server, key, "post", events, [{"content": 1}, {"content": 1, "state_delta": delta}]).status
            assert got == expected, (user, delta)
    assert server.api("PATCH", f"/apps/{APP}/state", {"secret": 1}).status == 200
    assert server.api("PATCH", f"/apps/{APP}/users/_/state", {"secret": 1}).status == 200
    shown = ask(server, key, "get", f"/apps/{APP}/users/t1%3Aeve/sessions/s?merge_state=true").json["state"]
    assert shown == {"user:x": 1, "x": 1}
    shown = ask(server, key, "get", f"/apps/{APP}/users/_/sessions/t1%3Aeve?merge_state=true").json["state"]
    assert shown == {"x": 1}
    merged = server.api("GET", f"/apps/{APP}/users/_/sessions/t1%3Aeve?merge_state=true").json["state"]
    assert merged == {"app:secret": 1, "user:secret": 1, "x": 1}
