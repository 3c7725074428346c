"""Deploying functions: what is accepted, what is refused and why, versions."""

import base64
import io
import tarfile

import pytest

ECHO = "def handle(event):\n    return event\n"


def test_a_new_function_is_201_and_its_change_200(server):
    created = server.api("PUT", "/functions/new", {"runtime": "python", "files": {"main.py": ECHO}})
    assert created.status == 201
    assert created.json["version"] == 1
    assert created.json["state_config"]["max_keys"] == 100
    changed = server.api("PUT", "/functions/new", {"timeout_ms": 1234})
    assert (changed.status, changed.json["timeout_ms"], changed.json["version"]) == (200, 1234, 1)
    assert server.api("GET", "/functions/new").json == changed.json


def test_other_code_is_a_new_version_and_the_same_is_not(server):
    server.deploy("versions", ECHO)
    assert server.deploy("versions", ECHO)["version"] == 1
    assert server.deploy("versions", ECHO.replace("event\n", "[event]\n"))["version"] == 2
    assert server.invoke("versions", 1).json["body"] == [1]
    listed = server.api("GET", "/functions/versions/versions").json["items"]
    assert [one["version"] for one in listed] == [2, 1]
    back = server.api("POST", "/functions/versions/rollback", {"version": 1})
    assert back.json["version"] == 1
    assert server.invoke("versions", 1).json["body"] == 1


@pytest.mark.parametrize("runtime, code, line, words", [
    ("python", "def handle(event):\n    return (\n", 2, "SyntaxError"),
    ("python", "import nothing_of_that_name\n", 1, "ModuleNotFoundError"),
    ("python", "def other(event): pass\n", None, "handle"),
    ("node", "function handle(event) {\n  return (;\n}\n", 2, "SyntaxError"),
    ("node", "require('./nowhere');\n", 1, "Cannot find module"),
    ("node", "exports.other = 1;\n", None, "handle"),
])
def test_code_that_does_not_load_is_refused_with_the_interpreters_words(server, runtime, code, line, words):
    name = {"python": "main.py", "node": "main.js"}[runtime]
    answer = server.api("PUT", "/functions/broken", {"runtime": runtime, "files": {name: code}})
    assert answer.status == 422
    assert answer.json["code"] == "unprocessable"
    assert words in answer.json["detail"]
    if line:
        assert (answer.json["file"], answer.json["line"]) == (name, line)
    assert server.api("GET", "/functions/broken").status == 404


def test_a_version_that_does_not_load_leaves_the_one_that_does(server):
    server.deploy("kept", ECHO)
    assert server.api("PUT", "/functions/kept", {"files": {"main.py": "def"}}).status == 422
    assert server.invoke("kept", "still").json["body"] == "still"


def test_an_archive_is_as_good_as_files(server):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in {"lib/words.py": "WORD = 'packed'\n",
                           "main.py": "from lib.words import WORD\ndef handle(event): return WORD\n"}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    body = {"runtime": "python", "archive_base64": base64.b64encode(packed.getvalue()).decode()}
    assert server.api("PUT", "/functions/packed", body).status == 201
    assert server.invoke("packed").json["body"] == "packed"


def test_a_function_sees_its_environment_and_nothing_of_the_servers(server):
    code = "import os\ndef handle(event): return dict(os.environ)\n"
    server.deploy("environment", code, env={"GREETING": "hello"})
    seen = server.invoke("environment").json["body"]
    assert seen["GREETING"] == "hello"
    assert not [name for name in seen if name.startswith("NIMBUS")]


@pytest.mark.parametrize("body, field", [
    ({"runtime": "python", "files": {"main.py": ECHO}, "timout_ms": 1}, "timout_ms"),
    ({"runtime": "perl", "files": {"main.py": ECHO}}, "runtime"),
    ({"runtime": "python"}, "files"),
    ({"runtime": "python", "files": {"../main.py": ECHO}}, "main.py"),
    ({"runtime": "python", "files": {"main.py": ECHO}, "state_config": {"max_key": 1}}, "max_key"),
])
def test_what_is_wrong_is_named(server, body, field):
    answer = server.api("PUT", "/functions/wrong", body)
    assert answer.status == 400, answer.text
    assert field in answer.json["detail"]


def test_a_deleted_function_takes_its_sessions_and_state_along(server):
    server.deploy("gone", "def handle(event, state):\n    return state.incr('n')\n")
    assert server.invoke("gone", session="a").json["body"] == 1
    assert server.api("DELETE", "/functions/gone").status == 204
    assert server.api("DELETE", "/functions/gone").status == 404
    assert server.invoke("gone", session="a").status == 404
    assert server.deploy("gone", "def handle(event, state):\n    return state.incr('n')\n")["version"] == 1
    assert server.invoke("gone", session="a").json["body"] == 1


def test_functions_are_listed_in_pages(server):
    for name in ("list-a", "list-b", "list-c"):
        server.deploy(name, ECHO)
    names, cursor = [], ""
    while cursor is not None:
        page = server.api("GET", f"/functions?limit=2&cursor={cursor}").json
        names += [one["id"] for one in page["items"]]
        cursor = page["next_cursor"]
    assert names == sorted(names)
    assert {"list-a", "list-b", "list-c"} <= set(names)


def test_what_functions_print_is_their_log(server):
    server.deploy("chatty", "import sys\ndef handle(event):\n    print('one')\n    print('two', file=sys.stderr)\n")
    answer = server.invoke("chatty")
    lines = server.api("GET", "/functions/chatty/logs").json["items"]
    assert [(one["stream"], one["line"]) for one in lines] == [("stderr", "two"), ("stdout", "one")]
    assert {one["request_id"] for one in lines} == {answer.json["request_id"]}
