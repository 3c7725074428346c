import concurrent.futures
import re
import socket
import stat

import pytest

from harness import PATIENCE, Server, nimbus


def test_one_ready_line_names_the_address(tmp_path):
    with Server(tmp_path) as server:
        assert re.fullmatch(r"nimbus ready on http://127\.0\.0\.1:\d+\n", server.ready_line)
        assert server.get("/health/live").status == 200
        code, _ = server.stop()
        assert code == 0
        assert server.rest_of_stdout() == ""


def test_listens_on_ipv6(tmp_path):
    with Server(tmp_path, listen="[::1]:0") as server:
        assert server.url.startswith("http://[::1]:")
        assert server.get("/health").status == 200


def test_data_directory_is_private(tmp_path):
    with Server(tmp_path) as server:
        assert stat.S_IMODE(server.data.stat().st_mode) == 0o700


def test_a_port_in_use_is_said_clearly(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = nimbus("serve", "--listen", f"127.0.0.1:{port}", "--data", str(tmp_path / "d"))
    assert done.returncode == 1
    assert f"127.0.0.1:{port}" in done.stderr
    assert "in use" in done.stderr
    assert done.stdout == ""


def test_two_servers_cannot_have_one_port(tmp_path):
    with Server(tmp_path) as first:
        done = nimbus("serve", "--listen", f"127.0.0.1:{first.port}", "--data", str(tmp_path / "d"))
        assert done.returncode == 1
        assert first.get("/health").status == 200


def test_a_data_directory_that_cannot_be_made_is_said_clearly(tmp_path):
    (tmp_path / "file").write_text("x")
    for directory in (tmp_path / "file", tmp_path / "file" / "below", "/proc/nimbus"):
        done = nimbus("serve", "--listen", "127.0.0.1:0", "--data", str(directory))
        assert done.returncode == 1
        assert str(directory) in done.stderr
        assert "--data" in done.stderr
        assert done.stdout == ""


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0"])
def test_without_keys_only_this_machine_is_served(tmp_path, listen):
    done = nimbus("serve", "--listen", listen, "--data", str(tmp_path / "d"), "--no-auth")
    assert done.returncode == 2
    assert "--no-auth" in done.stderr
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    "arguments, named",
    [
        (["--set", "gateway.store.sqlite.walMode=false"], "walMode"),
    ],
)
def test_a_store_that_is_not_there_is_refused_before_the_disk_is_touched(tmp_path, arguments, named):
    done = nimbus("serve", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "d"), *arguments)
    assert done.returncode == 2
    assert named in done.stderr
    assert not (tmp_path / "d").exists()


def test_the_instance_has_a_name_of_its_own(tmp_path):
    with Server(tmp_path) as server:
        name = server.get("/health").json["instanceId"]
        assert re.fullmatch(r"gw-[\w.-]+-%d-[0-9a-z]+-[0-9a-z]+" % server.process.pid, name)
    with Server(tmp_path, "--set", "gateway.instance.id=node-1") as server:
        assert server.get("/health").json["instanceId"] == "node-1"


def test_a_function_that_says_nothing_has_the_servers_state_settings(tmp_path):
    given = {"enabled": "true", "defaults.default_ttl": "7", "defaults.max_state_size": "8", "defaults.max_keys": "5",
             "session.affinity_enabled": "false", "session.session_timeout": "9"}
    settings = [word for name, value in given.items() for word in ("--set", f"state.{name}={value}")]
    with Server(tmp_path, *settings) as server:
        server.deploy("f", "def handle(event): return 1")
        state = server.api("GET", "/functions/f").json["state_config"]
        assert {name: state[name] for name in ("enabled", "default_ttl", "max_state_size", "max_keys", "session_affinity", "session_timeout")} == {
            "enabled": True, "default_ttl": 7, "max_state_size": 8, "max_keys": 5, "session_affinity": False, "session_timeout": 9}


def test_whoever_started_it_is_told_when_it_is_ready_and_when_it_stops(tmp_path):
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(PATIENCE)
        with Server(tmp_path, env={"NOTIFY_SOCKET": str(path)}) as server:
            assert manager.recv(100) == b"READY=1"
            assert server.stop()[0] == 0
            assert manager.recv(100) == b"STOPPING=1"


def test_functions_that_are_called_at_once_after_a_start_all_answer(tmp_path):
    """All need the process that Python's instances are forked from, and none is there yet."""
    functions = [f"f{i}" for i in range(4)]
    with Server(tmp_path) as server:
        for function in functions:
            server.deploy(function, "def handle(event): return 1")
    for _ in range(4):
        with Server(tmp_path) as server, concurrent.futures.ThreadPoolExecutor(len(functions)) as pool:
            answers = list(pool.map(server.invoke, functions))
            assert [answer.status for answer in answers] == [200] * len(functions), [answer.text for answer in answers]
