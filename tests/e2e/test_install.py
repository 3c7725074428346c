"""What `cmake --install` leaves behind works without this tree: the server, its SDKs, the header and the package."""

import base64
import pathlib
import subprocess
import zipfile

import pytest

import harness
from harness import BINARY, Server

COUNTER = """#include <nimbus/function.h>
nimbus::Json handle(const nimbus::Json&, nimbus::State& state) { return state.incr("visits"); }
"""

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(counter LANGUAGES CXX)
find_package(nimbus REQUIRED)
add_executable(counter main.cpp)
target_link_libraries(counter PRIVATE nimbus::function)
target_compile_options(counter PRIVATE -Wall -Wextra -Wpedantic -Werror)
"""


def run(*command):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("installed")
    run("cmake", "--install", pathlib.Path(BINARY).parent, "--prefix", prefix)
    return prefix


@pytest.fixture(scope="module")
def server(installed, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(harness, "BINARY", str(installed / "bin/nimbus"))
        with Server(tmp_path_factory.mktemp("server")) as running:
            yield running


def test_the_files_are_where_they_are_looked_for(installed):
    assert (installed / "include/nimbus/function.h").exists()
    assert (installed / "include/nimbus/dispatch.h").exists()
    assert (installed / "share/nimbus/sdk/cpp/include/nimbus/function.h").exists()
    assert (installed / "share/nimbus/sdk/python/zygote.py").exists()
    assert not list(installed.rglob("test_*.py"))
    assert "nimbus invoke" in (installed / "share/man/man1/nimbus.1").read_text().replace("\\-", "-")
    assert "_nimbus" in (installed / "share/bash-completion/completions/nimbus").read_text()
    assert (installed / "share/zsh/vendor-completions/_nimbus").exists()
    assert (installed / "share/fish/vendor_completions.d/nimbus.fish").exists()
    unit = (installed / "lib/systemd/system/nimbus.service").read_text()
    assert "Type=notify" in unit and f"ExecStart={installed}/bin/nimbus serve --config {installed}/etc/nimbus/nimbus.yaml" in unit


def test_the_installed_settings_are_sound(installed):
    done = harness.nimbus("config", "check", "--config", str(installed / "etc/nimbus/nimbus.yaml"))
    assert done.returncode == 0, done.stderr


def test_the_package_has_everything_in_its_place(tmp_path):
    run("cpack", "--config", pathlib.Path(BINARY).parent / "CPackConfig.cmake", "-B", tmp_path, "-D", "CPACK_STRIP_FILES=OFF",
        "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip")
    (package,) = tmp_path.glob("nimbus_*.deb")
    run("dpkg-deb", "-R", package, tmp_path / "unpacked")
    root = tmp_path / "unpacked"
    for file in ("usr/bin/nimbus", "usr/share/nimbus/sdk/python/zygote.py", "usr/include/nimbus/function.h", "usr/share/man/man1/nimbus.1",
                 "usr/lib/systemd/system/nimbus.service", "etc/nimbus/nimbus.yaml", "usr/share/doc/nimbus/copyright",
                 "usr/share/bash-completion/completions/nimbus"):
        assert (root / file).exists(), file
    assert "ExecStart=/usr/bin/nimbus serve --config /etc/nimbus/nimbus.yaml" in (root / "usr/lib/systemd/system/nimbus.service").read_text()
    assert (root / "DEBIAN/conffiles").read_text() == "/etc/nimbus/nimbus.yaml\n"
    control = (root / "DEBIAN/control").read_text()
    assert "Package: nimbus" in control and "libsqlite3-0" in control and "adduser" in control
    for script in ("postinst", "prerm", "postrm"):
        run("sh", "-n", root / "DEBIAN" / script)


@pytest.mark.parametrize("runtime, code", [
    ("python", "def handle(event, state):\n    return state.incr('visits')\n"),
    ("node", "const { state } = require('nimbus-state');\nexports.handle = () => state.incr('visits');\n"),
    ("native", COUNTER),
])
def test_an_installed_server_runs_every_language(server, runtime, code):
    server.deploy(runtime, code, runtime=runtime)
    assert [server.invoke(runtime, session="a").json["body"] for _ in range(2)] == [1, 2]


def test_a_program_built_with_the_package_is_a_function(server, installed, tmp_path):
    (tmp_path / "main.cpp").write_text(COUNTER + "NIMBUS_FUNCTION(handle);\n")
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={installed}", "-DCMAKE_CXX_COMPILER=g++", "-DCMAKE_BUILD_TYPE=Release")
    run("cmake", "--build", tmp_path / "build")
    with zipfile.ZipFile(tmp_path / "code.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(tmp_path / "build/counter", "counter")
    code = base64.b64encode((tmp_path / "code.zip").read_bytes()).decode()
    answer = server.api("PUT", "/functions/built", {"runtime": "native", "handler": "counter", "archive_base64": code})
    assert answer.status == 201, answer.text
    assert [server.invoke("built", session="a").json["body"] for _ in range(2)] == [1, 2]
