"""`nimbus dev`: serves a folder while it is written."""

import json
import os
import re
import signal
import threading
import time
import urllib.error
import urllib.request

import pytest

from harness import PATIENCE, nimbus
from terminal import Terminal

CODE = """def handle(event, state):
    print("version {number} was called")
    return {{"version": {number}, "visits": state.incr("visits")}}
"""


class Dev(Terminal):
    def __init__(self, folder, *arguments):
        super().__init__("dev", str(folder), "--listen", "127.0.0.1:0", *arguments, columns=200, env={"NO_COLOR": "1"})
        self.expect("nimbus dev on ")
        self.expect("Ctrl-C ends it")
        self.url = re.search(r"nimbus dev on (\S+),", self.text)[1]

    def invoke(self, function, session="alice"):
        request = urllib.request.Request(f"{self.url}/api/v1/functions/{function}/invoke?session_key={session}", b'{"payload": {}}')
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)["body"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "counter").mkdir()
    write(tmp_path / "counter", CODE.format(number=1))
    return tmp_path / "counter"


def write(folder, code):
    (folder / "main.py").write_text(code)


def test_a_saved_file_is_served_and_sessions_stay(folder):
    with Dev(folder) as dev:
        dev.expect("✓ counter version 1 (python) ready")
        assert dev.invoke("counter") == {"version": 1, "visits": 1}
        dev.expect("version 1 was called")
        dev.expect("→ counter answered 200")
        write(folder, CODE.format(number=2))
        dev.expect("✓ counter version 2 (python) ready")
        assert dev.invoke("counter") == {"version": 2, "visits": 2}
        dev.expect("version 2 was called")
        dev.type("\x03")
        assert dev.end() == 0
    with Dev(folder) as again:
        again.expect("✓ counter version 2")
        assert again.invoke("counter") == {"version": 2, "visits": 3}


def test_what_is_saved_is_ready_at_once(folder):
    with Dev(folder) as dev:
        at = dev.expect("✓ counter version 1")
        times = []
        for number in range(2, 8):
            begin = time.monotonic()
            write(folder, CODE.format(number=number))
            at = dev.expect(f"✓ counter version {number} (python) ready", after=at)
            times.append(time.monotonic() - begin)
        assert min(times) < 0.3  # of several: others may use this machine, too


def test_code_that_does_not_load_leaves_the_old_and_says_where(folder):
    with Dev(folder) as dev:
        dev.expect("✓ counter version 1")
        write(folder, "def handle(event, state):\n    return (\n")
        seen = dev.expect("✗ counter: ")
        dev.expect("version 1 still serves", after=seen)
        assert re.search(r"main\.py\D+2", dev.text[seen:])
        assert dev.invoke("counter")["version"] == 1
        write(folder, CODE.format(number=3))
        dev.expect("✓ counter version 2")
        assert dev.invoke("counter")["version"] == 3
        os.kill(dev.process.pid, signal.SIGTERM)
        assert dev.end() == 0


def test_calls_that_wait_while_it_is_redeployed_are_answered(folder):
    slow = "import time\ndef handle(event, state):\n    time.sleep(0.02)\n    return {{'version': {}, 'visits': state.incr('visits')}}\n"
    write(folder, slow.format(1))
    answers, failures = [], []

    def call(dev):
        try:
            answers.append(dev.invoke("counter"))
        except (urllib.error.URLError, OSError) as failure:
            failures.append(failure)

    with Dev(folder) as dev:
        at = dev.expect("✓ counter version 1")
        for version in (2, 3):
            callers = [threading.Thread(target=call, args=(dev,)) for _ in range(20)]
            for caller in callers:
                caller.start()
            write(folder, slow.format(version))
            at = dev.expect(f"✓ counter version {version}", after=at)
            for caller in callers:
                caller.join(PATIENCE)
        assert not failures
        assert sorted(answer["visits"] for answer in answers) == list(range(1, 41))
        assert dev.invoke("counter")["version"] == 3


def test_no_asynchronous_call_is_dropped_by_what_is_saved_meanwhile(folder):
    slow = "import time\ndef handle(event, state):\n    time.sleep(0.03)\n    return {{'version': {}, 'visits': state.incr('visits')}}\n"
    write(folder, slow.format(1))
    with Dev(folder) as dev:
        dev.expect("✓ counter version 1")

        def ask(path, body=None):
            with urllib.request.urlopen(urllib.request.Request(f"{dev.url}/api/v1{path}", body), timeout=PATIENCE) as answer:
                return json.load(answer)

        taken = [ask("/functions/counter/invoke?session_key=a&mode=async", b'{"payload": {}}') for _ in range(40)]
        assert [one["session_seq"] for one in taken] == list(range(1, 41))
        write(folder, "def handle(event, state):\n    return (\n")
        dev.expect("version 1 still serves")
        write(folder, slow.format(2))
        dev.expect("✓ counter version 2")
        ended = [ask(f"/invocations/{one['request_id']}?wait_ms=30000") for one in taken]
        assert [(one["status"], one["attempts"], one["body"]["visits"]) for one in ended] == [("succeeded", 1, n) for n in range(1, 41)]
        versions = [one["body"]["version"] for one in ended]
        assert versions == sorted(versions) and versions[-1] == 2


def test_new_functions_of_a_folder_are_found_and_settings_are_read_again(folder):
    with Dev(folder.parent) as dev:
        dev.expect("✓ counter version 1")
        (folder.parent / "second").mkdir()
        (folder.parent / "second" / "main.js").write_text("exports.handle = () => 'two';\n")
        dev.expect("✓ second version 1 (node)")
        assert dev.invoke("second") == "two"
        (folder / "function.yaml").write_text("timeout_ms: 4321\n")
        dev.expect("its code as it was")
        with urllib.request.urlopen(f"{dev.url}/api/v1/functions/counter", timeout=PATIENCE) as answer:
            assert json.load(answer)["timeout_ms"] == 4321


def test_an_editor_that_replaces_files_is_noticed(folder):
    with Dev(folder) as dev:
        dev.expect("✓ counter version 1")
        (folder / "main.py.new~").write_text(CODE.format(number=2))
        (folder / "main.py.new~").rename(folder / "main.py")
        dev.expect("✓ counter version 2")
        assert dev.invoke("counter")["version"] == 2


def test_its_server_ends_with_it_even_when_it_is_killed(folder):
    with Dev(folder) as dev:
        dev.expect("✓ counter version 1")
        dev.process.kill()
        dev.process.wait(PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(dev.url + "/health", timeout=PATIENCE).close()
            except OSError:
                return
        raise AssertionError("the server is still there")


def test_mistakes_are_said(tmp_path):
    nothing = nimbus("dev", str(tmp_path))
    assert nothing.returncode == 2 and "nimbus new" in nothing.stderr
    assert nimbus("dev", str(tmp_path / "none")).returncode == 2
    (tmp_path / "main.py").write_text("def handle(event):\n    pass\n")
    outside = nimbus("dev", str(tmp_path), "--listen", "0.0.0.0:0")
    assert outside.returncode == 1 and "--no-auth" in outside.stdout + outside.stderr
