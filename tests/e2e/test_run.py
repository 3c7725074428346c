"""./run, with the build and the packages stubbed: what it says, and when."""

import json
import os
import shutil
import signal
import subprocess
import urllib.request

import pytest

from harness import BINARY, PATIENCE, REPOSITORY, clean_environment


@pytest.fixture
def checkout(tmp_path):
    shutil.copy(REPOSITORY / "run", tmp_path / "run")
    for stub in ("tools/install-packages", "bin/cmake"):
        path = tmp_path / stub
        path.parent.mkdir()
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "build.ninja").touch()
    os.symlink(BINARY, tmp_path / "build" / "nimbus")
    shutil.copytree(REPOSITORY / "examples" / "functions", tmp_path / "examples" / "functions")
    return tmp_path


def start(checkout, *arguments, env=None):
    path = f"{checkout / 'bin'}:{os.environ['PATH']}"
    return subprocess.Popen(
        [checkout / "run", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=clean_environment(PATH=path, **(env or {})),
    )


@pytest.mark.parametrize(
    "arguments, env",
    [
        (["--listen", "127.0.0.1:0"], {}),
        (["--set", "server.listen=[::1]:0"], {}),
        ([], {"NIMBUS_SERVER__LISTEN": "127.0.0.1:0"}),
    ],
)
def test_it_says_where_the_server_really_is(checkout, arguments, env):
    process = start(checkout, "--data", "data", *arguments, env=env)
    try:
        line = process.stdout.readline()
        address = line.removeprefix("nimbus ready on ").strip()
        assert address.startswith("http://") and not address.endswith(":0")
        said = ""
        while f"curl {address}/health" not in said:
            said += process.stderr.readline()
        assert f"{address}/docs" in said
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.communicate()


def said_by(process):
    """What is said about the address, when the server is ready."""
    process.stdout.readline()
    said = ""
    while "/health\n" not in said or not said.endswith("\n\n"):
        said += process.stderr.readline()
    return said


def tried(said, checkout):
    """Runs the line that is to be tried, as whoever reads it would; the answer."""
    line = next(line for line in said.splitlines() if "A function that counts:" in line)
    command = line.split(":", 1)[1].strip()
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE, cwd="/")
    return json.loads(done.stdout)


@pytest.mark.parametrize("arguments, env", [
    (["--data", "my data"], {}),
    (["--set", "server.data=elsewhere"], {}),
    ([], {"NIMBUS_SERVER__DATA": "by-environment"}),
    (["--no-auth"], {}),
])
def test_the_examples_are_deployed_and_the_line_to_try_works(checkout, arguments, env):
    process = start(checkout, "--listen", "127.0.0.1:0", *arguments, env=env)
    try:
        said = said_by(process)
        assert tried(said, checkout)["body"] == {"visits": 1, "everyone": 1}
        assert tried(said, checkout)["body"] == {"visits": 2, "everyone": 2}
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.communicate()


def test_functions_of_ones_own_take_the_place_of_the_examples(checkout):
    own = checkout / "own" / "hello"
    own.mkdir(parents=True)
    (own / "main.py").write_text("def handle(event):\n    return 'hello'\n")
    process = start(checkout, "--listen", "127.0.0.1:0", "--no-auth", "--functions", "own")
    try:
        address = process.stdout.readline().removeprefix("nimbus ready on ").strip()
        with urllib.request.urlopen(f"{address}/api/v1/functions", timeout=PATIENCE) as answer:
            assert [one["id"] for one in json.load(answer)["items"]] == ["hello"]
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=PATIENCE)
        assert "/docs" in said and "counter" not in said
    finally:
        process.kill()
        process.communicate()


def test_a_start_that_fails_names_no_address(checkout):
    process = start(checkout, "--data", "data", "--listen", "nowhere")
    out, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert out == ""
    assert "curl" not in said


@pytest.mark.parametrize("arguments", [["--build-only"], ["--data", "data", "--build-only"]])
def test_build_only_starts_nothing(checkout, arguments):
    process = start(checkout, *arguments)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert out == ""
    assert not (checkout / "data").exists()
