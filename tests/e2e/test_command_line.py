import os
import subprocess

import pytest

from harness import BINARY, PATIENCE, REPOSITORY, Server, clean_environment, nimbus


def test_version():
    done = nimbus("version")
    assert done.returncode == 0
    assert done.stdout.startswith("nimbus ")
    assert done.stdout.count("\n") == 1


def test_help_shows_examples():
    assert "serve" in nimbus("--help").stdout
    serve = nimbus("serve", "--help")
    assert serve.returncode == 0
    assert "Examples:" in serve.stdout and "--listen HOST:PORT" in serve.stdout


@pytest.mark.parametrize(
    "arguments, hint",
    [
        ([], "--help"),
        (["srve"], "did you mean serve?"),
        (["serve", "--no-such-option"], "nimbus serve --help"),
        (["serve", "--set", "novalue"], "NAME=VALUE"),
        (["serve", "--listen", "nowhere"], "127.0.0.1:8787"),
        (["serve", "--listen", "127.0.0.1:70000"], "65535"),
        (["serve", "--store", "oracle://"], "sqlite"),
        (["serve", "--set", "server.lisen=x"], "did you mean server.listen?"),
        (["serve", "--functions", "/no/such/directory"], "no directory"),
    ],
)
def test_mistakes_exit_with_2_and_help(arguments, hint):
    done = nimbus(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert hint in done.stderr
    assert "\x1b" not in done.stderr


def test_config_check_finds_every_mistake_with_its_place(tmp_path):
    file = tmp_path / "nimbus.yaml"
    file.write_text(
        "server:\n  lisen: x\n  threads: many\n  threads: 2\nlog:\n  level: loud\nnonsense: 1\n"
    )
    done = nimbus("config", "check", "--config", str(file))
    assert done.returncode == 1
    for expected in (
        f'{file}:2: there is no setting "server.lisen"; did you mean server.listen?',
        f"{file}:3: server.threads must be a whole number from 0 to 1024",
        f"{file}:4: server.threads is there twice",
        f"{file}:6: log.level must be debug, info, warn, error or off",
        f"{file}:7: there is no setting",
    ):
        assert expected in done.stderr
    assert nimbus("serve", "--config", str(file)).returncode == 1


def test_config_show_says_where_values_are_from(tmp_path):
    file = tmp_path / "nimbus.yaml"
    file.write_text("server:\n  threads: 3\nstate:\n  redis:\n    password: hunter2\n")
    done = nimbus(
        "config", "show", "--config", str(file), "--set", "log.level=warn",
        env={"NIMBUS_GATEWAY__STORE__SQLITE__WALMODE": "false", "NIMBUS_KEY": "ignored"},
    )
    assert done.returncode == 0
    assert f"threads: 3  # {file}:2" in done.stdout
    assert 'level: "warn"  # --set log.level' in done.stdout
    assert "walMode: false  # NIMBUS_GATEWAY__STORE__SQLITE__WALMODE" in done.stdout
    assert "hunter2" not in done.stdout + done.stderr
    assert 'password: "********"' in done.stdout

    again = tmp_path / "again.yaml"
    again.write_text(done.stdout)
    assert nimbus("config", "check", "--config", str(again)).returncode == 0


def test_an_unknown_variable_is_a_mistake():
    done = nimbus("config", "check", env={"NIMBUS_SERVER__LISTN": "x"})
    assert done.returncode == 1
    assert "NIMBUS_SERVER__LISTN" in done.stderr
    assert "did you mean NIMBUS_SERVER__LISTEN?" in done.stderr


def test_a_certificate_without_its_key_is_a_mistake():
    done = nimbus("config", "check", "--set", "server.tls.cert_file=c.pem")
    assert done.returncode == 2
    assert "server.tls.key_file" in done.stderr


def test_flags_win_over_the_environment_and_the_file(tmp_path):
    file = tmp_path / "nimbus.yaml"
    file.write_text("server:\n  listen: 127.0.0.1:1\ngateway:\n  instance:\n    id: from-file\n")
    with Server(
        tmp_path, "--config", str(file), env={"NIMBUS_SERVER__LISTEN": "127.0.0.1:2"}
    ) as server:
        assert server.get("/health").json["instanceId"] == "from-file"


def test_the_reference_in_the_documentation_is_that_of_the_binary():
    done = nimbus("config", "reference")
    assert done.returncode == 0
    written = (REPOSITORY / "docs" / "configuration.md").read_text()
    assert written == done.stdout, "run: build/nimbus config reference > docs/configuration.md"


def test_output_nobody_takes_is_a_failure():
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [BINARY, "config", "show"], stdout=write, stderr=subprocess.PIPE,
            timeout=PATIENCE, env=clean_environment(),
        )
    finally:
        os.close(write)
    assert done.returncode == 1
