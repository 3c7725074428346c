"""nimbus events: every verb, against a real server."""

import json
import subprocess

import pytest

from harness import BINARY, PATIENCE, clean_environment, nimbus

EVENTS = [{"id": f"e{i}", "request_id": f"r{i // 2}", "author": "ann", "content": {"n": i, "l": []}} for i in range(30)]


@pytest.fixture
def events(server, tmp_path):
    file = tmp_path / "in.jsonl"
    file.write_text("".join(json.dumps(event) + "\n" for event in EVENTS))

    def run(verb, *words, session="s" + tmp_path.name, app="command"):
        return nimbus("events", verb, app, session, *words, "--user", "ann", "--server", server.url, "--data-dir",
                      str(server.data))
    done = run("import", str(file))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "imported 30 events\n"
    return run


def ids(text):
    return [json.loads(line)["id"] for line in text.splitlines()]


def test_list_and_show(events):
    done = events("list", "--author", "ann", "--request-id", "r3", "-o", "json")
    assert [event["id"] for event in json.loads(done.stdout)["items"]] == ["e6", "e7"]
    table = events("list", "--order", "desc", "--limit", "2").stdout.splitlines()
    assert table[0].split() == ["SEQ", "ID", "AUTHOR", "REQUEST", "TIME", "CONTENT"]
    assert [line.split()[1] for line in table[1:3]] == ["e29", "e28"]
    assert json.loads(events("show", "e3", "-o", "json").stdout)["content"] == {"n": 3, "l": []}
    missing = events("show", "none")
    assert missing.returncode == 1 and "none" in missing.stderr


def test_tail_prints_the_newest_in_order(events):
    assert ids(events("tail").stdout) == [f"e{i}" for i in range(10, 30)]
    assert ids(events("tail", "--limit", "3").stdout) == ["e27", "e28", "e29"]


@pytest.mark.parametrize("words, first", [((), "e10"), (("--limit", "2"), "e28"), (("--after", "25"), "e25")])
def test_tail_goes_on_with_what_comes(server, events, tmp_path, words, first):
    process = subprocess.Popen([BINARY, "events", "tail", "command", "s" + tmp_path.name, "-f", *words, "--user", "ann", "--server",
                                server.url, "--data-dir", str(server.data)], stdout=subprocess.PIPE, text=True,
                               env=clean_environment())
    try:
        seen = ids(process.stdout.readline())
        assert seen == [first]
        while seen[-1] != "e29":
            seen += ids(process.stdout.readline())
        assert seen == [f"e{i}" for i in range(int(first[1:]), 30)]
        path = f"/apps/command/users/ann/sessions/s{tmp_path.name}"
        assert server.api("POST", path + "/events", {"id": "new", "content": 1}).status == 201
        assert ids(process.stdout.readline()) == ["new"]
        assert server.api("DELETE", path).status == 204
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait(PATIENCE)


def test_what_is_exported_is_imported_as_it_was(events, tmp_path):
    file = tmp_path / "out.jsonl"
    assert events("export", str(file)).returncode == 0
    assert ids(file.read_text()) == [event["id"] for event in EVENTS]
    assert events("import", str(file), session="copy" + tmp_path.name).returncode == 0
    assert events("import", str(file), session="copy" + tmp_path.name).returncode == 0, "again: nothing is doubled"
    copied = [json.loads(line) for line in events("export", session="copy" + tmp_path.name).stdout.splitlines()]
    kept = [json.loads(line) for line in file.read_text().splitlines()]
    for event in copied + kept:
        del event["created_at"]
    assert copied == kept


def test_large_events_are_imported_in_several_requests(events, tmp_path):
    file = tmp_path / "large.jsonl"
    file.write_text("".join(json.dumps({"id": f"l{i}", "content": "x" * 300_000}) + "\n" for i in range(8)))
    assert events("import", str(file), session="large" + tmp_path.name).returncode == 0
    assert len(events("export", session="large" + tmp_path.name).stdout.splitlines()) == 8


def test_trim_check_and_repair(events):
    assert events("trim", "--conversations", "2").returncode == 0
    assert ids(events("tail", "--limit", "1").stdout) == ["e25"]
    assert events("trim", "--conversations", "x").returncode == 2
    assert events("check").stdout == "it is sound\n"
    assert events("repair").returncode == 0
    assert events("check", session="none").returncode == 1
