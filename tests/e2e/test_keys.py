import re
import socket
import stat
import subprocess

import pytest

from harness import BINARY, PATIENCE, Server, clean_environment, nimbus

SHOWN = "The administrator key, shown only this once: "


@pytest.mark.parametrize("level", ["debug", "warn", "off"])
def test_a_new_key_is_shown_whatever_is_logged_and_is_in_no_log_line(tmp_path, level):
    with Server(tmp_path, "--set", f"log.level={level}", "--set", "log.format=json") as server:
        lines = server.log_text().splitlines()
        assert [line for line in lines if server.key in line] == [SHOWN + server.key]


@pytest.mark.parametrize("trouble", ["port", "store"])
def test_a_start_that_fails_does_not_use_up_the_showing(tmp_path, trouble):
    data = tmp_path / "data"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1] if trouble == 'port' else 0}"
        if trouble == "store":
            data.mkdir()
            (data / "nimbus.db").write_text("this is no database, and long enough to be seen as none")
        failed = nimbus("serve", "--listen", listen, "--data", str(data))
    assert failed.returncode == 1
    assert "nk_" not in failed.stderr
    (data / "nimbus.db").unlink(missing_ok=True)
    with Server(tmp_path) as server:
        assert server.log_text().count(SHOWN + server.key) == 1


def test_the_first_start_makes_a_key_and_shows_it_once(tmp_path):
    with Server(tmp_path) as server:
        file = server.data / "admin.key"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        key = server.key
        assert re.fullmatch(r"nk_[0-9a-z]{50}", key)
        assert server.log_text().count(key) == 1
        assert server.get("/metrics", key=key).status == 200
        server.stop()
    with Server(tmp_path) as server:
        assert server.key == key
        assert server.log_text().count(key) == 1  # both runs write to one log
        assert server.get("/metrics", key=key).status == 200


def test_a_key_survives_a_kill(tmp_path):
    with Server(tmp_path) as server:
        key = server.key
    with Server(tmp_path) as server:
        assert server.key == key


def test_servers_that_share_a_directory_accept_one_key(tmp_path):
    with Server(tmp_path) as first, Server(tmp_path) as second:
        assert first.key == second.key
        for server in (first, second):
            assert server.get("/metrics", key=first.key).status == 200


def test_wrong_keys_are_refused(tmp_path):
    with Server(tmp_path) as server:
        for headers in (
            {},
            {"Authorization": "Bearer "},
            {"Authorization": "Bearer nk_" + "0" * 50},
            {"Authorization": "Basic " + server.key},
            {"Authorization": server.key},
            {"Authorization": "Bearer " + server.key.upper()},
            {"Authorization": "Bearer " + server.key + "0"},
        ):
            answer = server.request("GET", "/metrics", headers)
            assert answer.status == 401, headers
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
            assert answer.json["code"] == "unauthenticated"


def test_metrics_can_be_public(tmp_path):
    with Server(tmp_path, "--set", "server.public_metrics=true") as server:
        assert server.get("/metrics").status == 200


def test_without_authentication_no_key_is_needed(tmp_path):
    with Server(tmp_path, "--no-auth") as server:
        assert server.get("/metrics").status == 200
        assert not (server.data / "admin.key").exists()


def test_a_file_that_holds_no_key_stops_the_start(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "admin.key").write_text("not a key\n")
    done = subprocess.run(
        [BINARY, "serve", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data")],
        capture_output=True, text=True, timeout=PATIENCE, env=clean_environment(),
    )
    assert done.returncode == 1
    assert "admin.key" in done.stderr
