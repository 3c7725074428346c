"""./run, with the build and the packages stubbed: what it says, and when."""

import os
import shutil
import signal
import subprocess

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
