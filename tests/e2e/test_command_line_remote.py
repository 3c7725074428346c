"""The commands that ask a server, against a real one."""

import json
import subprocess
import threading

import pytest

from harness import BINARY, PATIENCE, REPOSITORY, Server, clean_environment, nimbus
from terminal import Terminal

COUNTER = """import sys
def handle(event, state):
    event = event or {}
    if "raise" in event:
        raise ValueError(event["raise"])
    if "status" in event:
        return {"status_code": event["status"], "body": {"chosen": True}}
    print("hello", event)
    print("beware", file=sys.stderr)
    return {"visits": state.incr("visits", event.get("add", 1)), "echo": event.get("echo")}
"""


@pytest.fixture(scope="module")
def counter(server):
    server.deploy("counter", COUNTER)
    return server


def run(server, *arguments, code=0, key=True, **options):
    env = {"NIMBUS_URL": server.url, **({"NIMBUS_KEY": server.key} if key else {}), **options.pop("env", {})}
    done = nimbus(*arguments, env=env, **options)
    assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
    return done


# ---- Where the server is, and the key

def test_the_server_is_named_by_option_or_variable_and_the_key_found_in_its_data(counter, tmp_path):
    by_option = nimbus("functions", "--server", counter.url, "--data-dir", str(counter.data))
    assert by_option.returncode == 0 and "counter" in by_option.stdout
    assert nimbus("functions", "--server", counter.url, "--data", str(counter.data)).returncode == 0
    by_setting = nimbus("functions", env={"NIMBUS_URL": counter.url, "NIMBUS_SERVER__DATA": str(counter.data)})
    assert by_setting.returncode == 0
    (tmp_path / "nimbus-data").symlink_to(counter.data)
    assert nimbus("functions", "--server", counter.url, cwd=tmp_path).returncode == 0


def test_without_a_key_it_says_where_to_put_one(counter, tmp_path):
    done = nimbus("functions", "--server", counter.url, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "unauthenticated" in done.stderr and "NIMBUS_KEY" in done.stderr


def test_a_server_that_is_not_there_is_said_with_what_to_do():
    done = nimbus("functions", "--server", "http://127.0.0.1:1")
    assert done.returncode == 1
    assert "http://127.0.0.1:1" in done.stderr and "nimbus serve" in done.stderr


@pytest.mark.parametrize("arguments, hint", [
    (["functions", "--server", "ftp://x"], "http://127.0.0.1:8787"),
    (["functions", "-o", "xml"], "table or json"),
    (["invoke", "counter", "--data", "{no"], "quotes"),
    (["invoke"], "FUNCTION"),
    (["sessions"], "FUNCTION"),
    (["state", "counter"], "--function-scope"),
    (["state", "set", "counter", "alice", "key"], "VALUE"),
    (["functions", "rollback", "counter", "first"], "versions"),
    (["deploy", "/no/such/place"], "nimbus new"),
    (["keys", "create", "x"], "--scope"),
    (["bench", "counter", "--calls", "many"], "--calls"),
    (["completion", "tcsh"], "bash, zsh or fish"),
])
def test_mistakes_exit_with_2(counter, arguments, hint):
    done = run(counter, *arguments, code=2)
    assert done.stdout == ""
    assert hint in done.stderr


def test_it_speaks_tls(tmp_path):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)],
                   check=True, capture_output=True, timeout=PATIENCE)
    settings = ["--set", f"server.tls.cert_file={certificate}", "--set", f"server.tls.key_file={key}"]
    with Server(tmp_path, *settings) as server:
        untrusted = run(server, "functions", code=1)
        assert "certificate" in untrusted.stderr
        assert run(server, "functions", "-o", "json", env={"SSL_CERT_FILE": str(certificate)}).stdout == '{"items":[],"next_cursor":null}\n'


# ---- invoke

def test_invoke_prints_what_the_function_returned(counter):
    assert run(counter, "invoke", "counter", "--session", "ann", "--data", '{"add": 2}').stdout == '{"visits":2,"echo":null}\n'
    whole = json.loads(run(counter, "invoke", "counter", "-s", "ann", "-o", "json").stdout)
    assert whole["body"]["visits"] == 3 and whole["session_key"] == "ann" and whole["status_code"] == 200


def test_the_payload_comes_from_a_file_or_standard_input_byte_for_byte(counter, tmp_path):
    file = tmp_path / "event.json"
    file.write_text('{"echo": [12345678901234567890, "é", []]}')
    for given, options in ((f"@{file}", {}), ("-", {"input": file.read_text()})):
        done = run(counter, "invoke", "counter", "--data", given, **options)
        assert json.loads(done.stdout)["echo"] == [12345678901234567890, "é", []]
    assert "no/such" in run(counter, "invoke", "counter", "--data", "@no/such", code=2).stderr


def test_strange_session_keys_are_data(counter):
    for key in ("a/b?c=d&e#f%41 +", "会话", "--help"):
        assert json.loads(run(counter, "invoke", "counter", f"--session={key}").stdout)["visits"] == 1
        assert json.loads(run(counter, "sessions", "show", "-o", "json", "counter", "--", key).stdout)["session_key"] == key


def test_a_function_that_fails_is_told_with_its_trace(counter):
    done = run(counter, "invoke", "counter", "--data", '{"raise": "too much"}', code=1)
    assert done.stdout == ""
    assert "ValueError: too much" in done.stderr and "main.py" in done.stderr
    whole = run(counter, "invoke", "counter", "--data", '{"raise": "x"}', "-o", "json", code=1)
    assert json.loads(whole.stdout)["code"] == "function_error"


def test_a_status_the_function_chose_decides_the_exit_code(counter):
    assert run(counter, "invoke", "counter", "--data", '{"status": 201}').stdout == '{"chosen":true}\n'
    refused = run(counter, "invoke", "counter", "--data", '{"status": 409}', code=1)
    assert refused.stdout == '{"chosen":true}\n' and "409" in refused.stderr


def test_a_misspelt_function_is_answered_with_the_nearest(counter):
    for arguments in (["invoke", "countr"], ["sessions", "countr"], ["logs", "countr"], ["functions", "show", "countr"]):
        assert "did you mean counter?" in run(counter, *arguments, code=1).stderr


# ---- functions, sessions, state

def test_functions_are_listed_shown_rolled_back_and_deleted(counter):
    run(counter, "functions")
    counter.deploy("passing", "def handle(event):\n    return 1\n")
    counter.deploy("passing", "def handle(event):\n    return 2\n")
    table = run(counter, "functions").stdout.splitlines()
    assert table[0].split() == ["FUNCTION", "RUNTIME", "VERSION", "HANDLER", "UPDATED"]
    assert [line.split()[:3] for line in table[1:] if line.startswith("passing")] == [["passing", "python", "2"]]
    assert json.loads(run(counter, "functions", "show", "passing", "-o", "json").stdout)["version"] == 2
    assert "version" in run(counter, "functions", "passing").stdout
    assert len(run(counter, "functions", "versions", "passing").stdout.splitlines()) == 3
    run(counter, "functions", "rollback", "passing", "1")
    assert run(counter, "invoke", "passing").stdout == "1\n"
    run(counter, "functions", "delete", "passing")
    run(counter, "functions", "show", "passing", code=1)


def test_lists_go_on_over_pages(counter):
    for number in range(5):
        run(counter, "invoke", "counter", "--session", f"page-{number}")
    first = json.loads(run(counter, "sessions", "counter", "--limit", "2", "-o", "json").stdout)
    assert len(first["items"]) == 2
    second = json.loads(run(counter, "sessions", "counter", "--limit", "2", "--cursor", first["next_cursor"], "-o", "json").stdout)
    assert second["items"][0]["session_key"] > first["items"][1]["session_key"]
    everything = json.loads(run(counter, "sessions", "counter", "--all", "-o", "json").stdout)
    assert everything["next_cursor"] is None
    assert {f"page-{number}" for number in range(5)} <= {item["session_key"] for item in everything["items"]}
    assert "--all" in run(counter, "sessions", "counter", "--limit", "2").stderr


def test_state_is_listed_shown_and_changed(counter):
    run(counter, "state", "set", "counter", "bea", "profile", '{"a": 1,  "b": []}')
    assert run(counter, "state", "counter", "bea", "profile").stdout == '{"a": 1,  "b": []}\n'
    assert json.loads(run(counter, "state", "incr", "counter", "bea", "n", "--by", "-3").stdout)["value"] == -3
    run(counter, "state", "set", "counter", "bea", "level", "--", "-1")
    table = run(counter, "state", "counter", "bea").stdout
    assert [line.split()[0] for line in table.splitlines()] == ["KEY", "level", "n", "profile"]
    assert json.loads(run(counter, "state", "counter", "bea", "-o", "json").stdout)["keys"][2]["key"] == "profile"
    assert "version_conflict" in run(counter, "state", "set", "counter", "bea", "n", "1", "--if-version", "9", code=1).stderr
    run(counter, "state", "set", "counter", "bea", "n", "1", "--if-absent", code=1)
    run(counter, "state", "delete", "counter", "bea", "n")
    run(counter, "state", "counter", "bea", "n", code=1)
    run(counter, "state", "delete", "counter", "bea", code=2)
    run(counter, "state", "delete", "counter", "bea", "--all")
    assert json.loads(run(counter, "state", "counter", "bea", "-o", "json").stdout)["keys"] == []


def test_state_in_function_scope_names_no_session(counter):
    run(counter, "state", "set", "counter", "total", "5", "--function-scope")
    assert run(counter, "state", "counter", "total", "--function-scope").stdout == "5\n"
    assert "total" in run(counter, "state", "counter", "--function-scope").stdout
    run(counter, "state", "delete", "counter", "total", "--function-scope")


def test_a_session_is_shown_and_deleted(counter):
    run(counter, "invoke", "counter", "--session", "gone")
    assert "next_seq" in run(counter, "sessions", "counter", "gone").stdout
    run(counter, "sessions", "delete", "counter", "gone")
    run(counter, "sessions", "show", "counter", "gone", code=1)


def test_options_may_stand_before_the_command_of_a_group(counter):
    done = nimbus("functions", "--server", counter.url, "--data-dir", str(counter.data), "show", "counter")
    assert done.returncode == 0, done.stderr


# ---- logs, top, bench

def test_logs_are_printed_oldest_first_and_followed(counter):
    counter.deploy("talker", "def handle(event):\n    print('said', event)\n")
    for number in range(3):
        run(counter, "invoke", "talker", "--data", str(number))
    lines = run(counter, "logs", "talker").stdout.splitlines()
    assert [line.split()[-1] for line in lines] == ["0", "1", "2"]
    follower = subprocess.Popen([BINARY, "logs", "talker", "-f", "--limit", "1"], stdout=subprocess.PIPE, text=True,
                                env=clean_environment(NIMBUS_URL=counter.url, NIMBUS_KEY=counter.key))
    watchdog = threading.Timer(PATIENCE, follower.kill)
    watchdog.start()
    try:
        assert follower.stdout.readline().endswith("said 2\n")
        run(counter, "invoke", "talker", "--data", "3")
        assert follower.stdout.readline().endswith("said 3\n")
        run(counter, "functions", "delete", "talker")
        assert follower.wait(PATIENCE) == 0  # the stream has ended
    finally:
        watchdog.cancel()
        follower.kill()
        follower.stdout.close()


def test_top_shows_the_figures_once(counter):
    run(counter, "invoke", "counter")
    table = run(counter, "top", "--once").stdout
    assert table.startswith("FUNCTION") and "counter" in table
    items = json.loads(run(counter, "top", "-o", "json").stdout)["items"]
    assert [item for item in items if item["function_id"] == "counter"][0]["calls"] >= 1


def test_bench_is_bounded_and_reports(counter):
    report = json.loads(run(counter, "bench", "counter", "--calls", "50", "--callers", "4", "--sessions", "3", "-o", "json").stdout)
    assert report["calls"] == 50 and report["failed"] == 0 and report["p50_ms"] <= report["p99_ms"]
    assert "calls/s" in run(counter, "bench", "counter", "--calls", "5").stdout
    failing = run(counter, "bench", "counter", "--calls", "5", "--data", '{"raise": "x"}', code=1)
    assert "5 failed: status 500" in failing.stdout


# ---- deploy, new

def test_deploy_takes_one_function_or_a_folder_of_them(counter, tmp_path):
    for name, code in (("one", "def handle(event):\n    return 1\n"), ("two", "def handle(event):\n    return 2\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "main.py").write_text(code)
    (tmp_path / "two" / "function.yaml").write_text("timeout_ms: 1234\n")
    done = run(counter, "deploy", str(tmp_path))
    assert "created one (python)" in done.stdout and "created two (python)" in done.stdout
    assert run(counter, "invoke", "two").stdout == "2\n"
    assert json.loads(run(counter, "functions", "show", "two", "-o", "json").stdout)["timeout_ms"] == 1234
    assert "already" in run(counter, "deploy", str(tmp_path / "one")).stdout
    (tmp_path / "one" / "main.py").write_text("def handle(event):\n    return 11\n")
    assert "updated one to version 2" in run(counter, "deploy", ".", cwd=tmp_path / "one").stdout
    assert "created three" in run(counter, "deploy", ".", "--name", "three", cwd=tmp_path / "one").stdout


def test_deploy_says_what_does_not_load_and_goes_on(counter, tmp_path):
    for name, code in (("bad", "def handle(event):\n    return (\n"), ("good", "def handle(event):\n    return 1\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "main.py").write_text(code)
    done = run(counter, "deploy", str(tmp_path), code=1)
    assert "created good" in done.stdout
    assert "bad" in done.stderr and "main.py" in done.stderr


@pytest.mark.parametrize("template, language, payload", [
    ("counter", "python", "{}"), ("counter", "node", "{}"), ("counter", "native", "{}"),
    ("cart", "python", '{"action": "add", "item": "apple"}'), ("cart", "node", '{"action": "add", "item": "apple"}'),
    ("chat", "python", '{"message": "hi"}'), ("chat", "node", '{"message": "hi"}'),
])
def test_every_template_runs(counter, tmp_path, template, language, payload):
    name = f"new-{template}-{language}"
    made = nimbus("new", name, "--template", template, "--language", language, cwd=tmp_path)
    assert made.returncode == 0 and "nimbus dev" in made.stderr
    run(counter, "deploy", str(tmp_path / name), timeout=4 * PATIENCE)  # a compiler may have to run
    run(counter, "invoke", name, "--session", "a", "--data", payload)
    assert nimbus("new", name, cwd=tmp_path).returncode == 1


def test_new_refuses_what_it_does_not_have(tmp_path):
    assert "counter (python)" in nimbus("new", "x", "--template", "none", cwd=tmp_path).stderr
    assert nimbus("new", "not a name", cwd=tmp_path).returncode == 2
    assert not list(tmp_path.iterdir())


# ---- On a terminal

def test_tables_fit_the_terminal_and_colours_can_be_off(counter, tmp_path):
    key = "a-session-key-that-is-much-longer-than-any-terminal-is-wide-" + "x" * 60
    run(counter, "invoke", "counter", "--session", key)
    env = {"NIMBUS_URL": counter.url, "NIMBUS_KEY": counter.key}
    with Terminal("sessions", "counter", "--all", columns=72, env=env) as terminal:
        assert terminal.end() == 0
        assert all(len(line) <= 72 for line in terminal.text.splitlines()) and "…" in terminal.text
    assert key in run(counter, "sessions", "counter", "--all").stdout  # piped, nothing is cut
    with Terminal("invoke", "nothing", env=env) as terminal:
        assert terminal.end() == 1
        assert "\x1b[1;31merror:" in terminal.text
    with Terminal("invoke", "nothing", env={**env, "NO_COLOR": "1"}) as terminal:
        assert terminal.end() == 1
        assert "\x1b" not in terminal.text


def test_a_person_is_asked_before_something_is_deleted_and_sees_progress(counter, tmp_path):
    (tmp_path / "shortlived").mkdir()
    (tmp_path / "shortlived" / "main.py").write_text("def handle(event):\n    return 1\n")
    env = {"NIMBUS_URL": counter.url, "NIMBUS_KEY": counter.key}
    with Terminal("deploy", str(tmp_path), env=env) as terminal:
        assert terminal.end() == 0
        assert "deploying shortlived" in terminal.text and "░" in terminal.text
    with Terminal("functions", "delete", "shortlived", env=env) as terminal:
        terminal.expect("[y/N]")
        terminal.type("n\n")
        assert terminal.end() == 1
    with Terminal("functions", "delete", "shortlived", env=env) as terminal:
        terminal.expect("[y/N]")
        terminal.type("y\n")
        assert terminal.end() == 0
    run(counter, "functions", "show", "shortlived", code=1)


def test_top_refreshes_until_it_is_ended(counter):
    env = {"NIMBUS_URL": counter.url, "NIMBUS_KEY": counter.key}
    with Terminal("top", env=env, columns=120) as terminal:
        first = terminal.expect("Ctrl-C")
        terminal.expect("Ctrl-C", after=first)
        assert "CALLS/S" in terminal.text
        terminal.type("\x03")
        assert terminal.end() != 0


# ---- The rest

def test_doctor_tells_what_is_there_and_what_is_not(tmp_path):
    done = nimbus("doctor", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    assert done.returncode == 0, done.stdout
    for expected in ("functions in Python", "functions in JavaScript", "functions in C++", "isolation", "data directory"):
        assert expected in done.stdout
    assert not (tmp_path / "data").exists()
    (tmp_path / "file").write_text("")
    bad = nimbus("doctor", "--data", str(tmp_path / "file" / "data"), "-o", "json")
    assert bad.returncode == 1
    assert "bad" in {item["verdict"] for item in json.loads(bad.stdout)["items"]}
    redis = nimbus("doctor", "--data", str(tmp_path), "--listen", "127.0.0.1:0", "--set", "gateway.store.backend=redis",
                   "--set", "gateway.store.redis.url=redis://127.0.0.1:1/0")
    assert redis.returncode == 1 and "Redis at redis://127.0.0.1:1/0: cannot be reached" in redis.stdout


def test_doctor_sees_a_port_that_is_taken(counter, tmp_path):
    done = nimbus("doctor", "--data", str(tmp_path), "--listen", f"127.0.0.1:{counter.port}")
    assert "something listens there" in done.stdout


def test_completion_knows_the_commands(tmp_path):
    script = tmp_path / "nimbus.bash"
    script.write_text(nimbus("completion", "bash").stdout)
    def complete(*words):
        # The words of the line, the last one to be completed.
        quoted = " ".join(f"'{word}'" for word in ("nimbus", *words))
        program = f". {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _nimbus; echo ${{COMPREPLY[@]}}"
        return subprocess.run(["bash", "-c", program], capture_output=True, text=True, timeout=PATIENCE).stdout.split()
    assert complete("inv") == ["invoke", "invocations"]
    assert "rollback" in complete("functions", "")
    assert complete("functions", "rollback", "--ser") == ["--server"]
    assert complete("serve", "--no") == ["--no-auth"]
    for shell in ("zsh", "fish"):
        assert "rollback" in nimbus("completion", shell).stdout


def test_every_command_has_help_with_an_example():
    page = nimbus("reference", "markdown").stdout
    commands = [line.split("nimbus ", 1)[1] for line in page.splitlines() if line.startswith(("## nimbus ", "### nimbus "))]
    assert len(commands) > 40
    for command in commands:
        shown = nimbus(*command.split(), "--help")
        assert shown.returncode == 0, command
        assert "Examples:" in shown.stdout or "Commands:" in shown.stdout or command == "version", command


def test_the_page_in_the_documentation_is_that_of_the_binary():
    written = (REPOSITORY / "docs" / "command-line.md").read_text()
    assert written == nimbus("reference", "markdown").stdout, "run: build/nimbus reference markdown > docs/command-line.md"


def test_keys_are_made_used_and_deleted_and_the_audit_log_tells_of_it(counter):
    made = run(counter, "keys", "create", "website", "--scope", "invoke:counter", "--scope", "functions:read")
    key = made.stdout.strip()
    assert key.startswith("nk_") and "only time" in made.stderr
    assert run(counter, "invoke", "counter", "--session", "k", env={"NIMBUS_KEY": key}).returncode == 0
    assert "nimbus keys create" in run(counter, "sessions", "counter", code=1, env={"NIMBUS_KEY": key}).stderr
    table = run(counter, "keys").stdout
    assert "website" in table and "functions:read, invoke:counter" in table and key not in table
    (item,) = [item for item in json.loads(run(counter, "keys", "-o", "json").stdout)["items"] if item["name"] == "website"]
    run(counter, "keys", "delete", item["id"])
    assert "unauthenticated" in run(counter, "functions", code=1, env={"NIMBUS_KEY": key}).stderr
    acts = run(counter, "audit").stdout
    assert acts.splitlines()[0].split()[:3] == ["TIME", "WHO", "ACTION"] and "/api/v1/keys" in acts


def test_devices_are_let_in_told_and_ended(counter):
    def pair(name):
        return counter.request("POST", "/api/v1/devices/pair", body=json.dumps({"name": name})).json

    lamp, stranger = pair("lamp"), pair("stranger")
    table = run(counter, "devices").stdout
    assert table.splitlines()[0].split()[:3] == ["ID", "NAME", "STATUS"] and lamp["device_id"] in table and "pending" in table
    assert "approved" in run(counter, "devices", "approve", lamp["device_id"], "--scope", "invoke:counter").stdout
    run(counter, "devices", "reject", stranger["device_id"])
    items = json.loads(run(counter, "devices", "-o", "json").stdout)["items"]
    known = {item["name"]: item for item in items}
    assert (known["lamp"]["status"], known["lamp"]["scopes"]) == ("approved", ["invoke:counter"])
    assert known.get("stranger", {"status": "rejected"})["status"] == "rejected"

    def poll(token):
        return counter.request("GET", "/api/v1/events/poll", {"X-Device-Id": lamp["device_id"], "X-Device-Token": token})

    first = counter.request("GET", f"/api/v1/devices/pair/{lamp['device_id']}?code={lamp['pairing_code']}").json["token"]
    run(counter, "devices", "send", lamp["device_id"], "light", "--data", '{"on": true}')
    assert [(event["type"], event["data"]) for event in poll(first).json["events"]] == [("light", {"on": True})]
    assert run(counter, "devices", "send", lamp["device_id"], "light", "--data", "{", code=2).stderr
    rotated = run(counter, "devices", "rotate", lamp["device_id"])
    assert "only time" in rotated.stderr and poll(first).status == 401 and poll(rotated.stdout.strip()).status == 200
    run(counter, "devices", "scopes", lamp["device_id"])
    assert json.loads(run(counter, "devices", "-o", "json").stdout)["items"][0]["scopes"] == []
    assert "refused from now on" in run(counter, "devices", "revoke", lamp["device_id"]).stdout
    assert poll(rotated.stdout.strip()).status == 401
    assert "there is no device" in run(counter, "devices", "approve", "dev_nobody", code=1).stderr
