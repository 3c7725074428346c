"""nimbus serve --functions: folders that are functions, the examples among them."""

import json

import pytest

from harness import REPOSITORY, Server


@pytest.fixture
def functions(tmp_path):
    folder = tmp_path / "functions"

    def write(path, content):
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())

    folder.mkdir()
    write.folder = folder
    write.arguments = ("--functions", str(folder))
    return write


def events(server):
    return [json.loads(line) for line in server.log_text().splitlines() if line.startswith("{")]


def test_each_folder_is_a_function_with_all_its_files(functions, tmp_path):
    functions("words/main.py", "from lib.words import WORD\n\n\ndef handle(event):\n    return [WORD, len(open('b.bin', 'rb').read())]\n")
    functions("words/lib/words.py", "WORD = 'hello'\n")
    functions("words/b.bin", bytes(range(256)))
    functions("words/README.md", "not code")
    functions("module/main.mjs", "export const handle = (event) => event;\n")
    functions("not-a-folder.txt", "")
    functions(".hidden/main.py", "")
    with Server(tmp_path, *functions.arguments) as server:
        assert server.invoke("words").json["body"] == ["hello", 256]
        assert server.invoke("module", 7).json["body"] == 7
        assert {one["id"] for one in server.api("GET", "/functions").json["items"]} == {"words", "module"}


def test_settings_beside_the_code_are_those_of_the_function(functions, tmp_path):
    functions("yaml/main.py", "import os\ndef handle(event):\n    return os.environ['GREETING']\n")
    functions("yaml/function.yaml", "timeout_ms: 1500\nenv:\n  GREETING: hello\nstate_config:\n  max_keys: 7\n")
    functions("json/start.py", "def begin(event):\n    return 'begun'\n")
    functions("json/function.json", '{"runtime": "python", "handler": "start.begin"}')
    with Server(tmp_path, *functions.arguments) as server:
        shown = server.api("GET", "/functions/yaml").json
        assert (shown["timeout_ms"], shown["state_config"]["max_keys"]) == (1500, 7)
        assert server.invoke("yaml").json["body"] == "hello"
        assert server.invoke("json").json["body"] == "begun"


def test_the_same_code_makes_no_new_version_and_other_code_does(functions, tmp_path):
    functions("counter/main.py", "def handle(event, state):\n    return state.incr('n')\n")
    with Server(tmp_path, *functions.arguments) as server:
        assert server.invoke("counter", session="a").json["body"] == 1
        server.api("PUT", "/functions/counter", {"timeout_ms": 1234})
        server.stop()
    with Server(tmp_path, *functions.arguments) as server:
        shown = server.api("GET", "/functions/counter").json
        assert (shown["version"], shown["timeout_ms"]) == (1, 1234)
        assert server.invoke("counter", session="a").json["body"] == 2
        server.stop()
    functions("counter/main.py", "def handle(event, state):\n    return [state.incr('n')]\n")
    with Server(tmp_path, *functions.arguments) as server:
        assert server.api("GET", "/functions/counter").json["version"] == 2
        assert server.invoke("counter", session="a").json["body"] == [3]
        server.stop()
        deployed = [line for line in events(server) if line["event"] == "function deployed"]
    assert [(line["version"], line["change"]) for line in deployed] == [(1, "created"), (1, "none"), (2, "updated")]


def test_one_that_cannot_be_deployed_is_logged_and_stops_nobody(functions, tmp_path):
    functions("good/main.py", "def handle(event):\n    return 1\n")
    functions("syntax/main.py", "def handle(event:\n")
    functions("unknown/main.py", "")
    functions("unknown/function.yaml", "timout_ms: 1\n")
    functions("empty/README.md", "no code")
    functions("no name/main.py", "")
    with Server(tmp_path, *functions.arguments) as server:
        assert server.invoke("good").json["body"] == 1
        assert [one["id"] for one in server.api("GET", "/functions").json["items"]] == ["good"]
        failed = {
            line["function"]: line["error"] for line in events(server)
            if line["event"] == "a function could not be deployed"
        }
    assert set(failed) == {"syntax", "unknown", "empty", "no name"}
    assert "SyntaxError" in failed["syntax"]
    assert "timout_ms" in failed["unknown"]


# ---- the examples

@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("examples"), "--functions", str(REPOSITORY / "examples" / "functions")) as running:
        assert not [line for line in events(running) if line["level"] in ("warn", "error")]
        yield running


def test_the_counter_counts_for_each_and_for_all(examples):
    for session, visits, everyone in (("alice", 1, 1), ("alice", 2, 2), ("bob", 1, 3)):
        assert examples.invoke("counter", {}, session=session).json["body"] == {"visits": visits, "everyone": everyone}


def test_the_cart_is_filled_and_checked_out(examples):
    def cart(**event):
        answer = examples.invoke("cart", event, session="alice")
        return answer.status, answer.json["body"]

    assert cart() == (200, {"items": {}})
    assert cart(action="checkout") == (409, {"error": "the cart is empty"})
    assert cart(action="add", item="apple", quantity=2) == (200, {"items": {"apple": 2}})
    assert cart(action="add", item="apple") == (200, {"items": {"apple": 3}})
    assert cart(action="add", item="pear") == (200, {"items": {"apple": 3, "pear": 1}})
    assert cart(action="remove", item="pear") == (200, {"items": {"apple": 3}})
    assert cart(action="checkout") == (200, {"order": 1, "items": {"apple": 3}})
    assert cart(action="show") == (200, {"items": {}})
    assert cart(action="dance")[0] == 400


def test_the_chat_remembers_the_last_messages_of_its_own_conversation(examples):
    for number in range(1, 13):
        answer = examples.invoke("chat", {"message": f"m{number}"}, session="alice").json["body"]["answer"]
    assert answer.startswith("You said: m12.")
    history = examples.api("GET", "/functions/chat/state/alice/history").json
    assert len(history) == 20
    assert (history[0]["content"], history[-2]["content"]) == ("m3", "m12")
    assert examples.invoke("chat", {}, session="alice").status == 500  # no message: nothing is remembered
    assert examples.api("GET", "/functions/chat/state/alice/history").json == history
    assert "message 1 that" in examples.invoke("chat", {"message": "hi"}, session="bob").json["body"]["answer"]
    assert examples.api("GET", "/functions/chat").json["state_config"]["default_ttl"] == 1800
