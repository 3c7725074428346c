"""The dispatch library as a product of its own: built alone by the system's compiler, installed, found
by find_package(), and the examples of its manual run as the manual says."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples/dispatch"
MANUAL = ROOT / "docs/dispatch.md"
# g++ 12 sees uninitialised reads in std::optional that are none.
WARNINGS = "-Wall -Wextra -Werror -Wno-maybe-uninitialized"


def run(*command):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The examples, built against an installed library."""
    place = tmp_path_factory.mktemp("package")
    common = ("-G", "Ninja", "-DCMAKE_CXX_COMPILER=g++", f"-DCMAKE_CXX_FLAGS={WARNINGS}")
    run("cmake", "-S", ROOT / "src/dispatch", "-B", place / "library", *common)
    run("cmake", "--build", place / "library")
    run("cmake", "--install", place / "library", "--prefix", place / "installed")
    run("cmake", "-S", EXAMPLES, "-B", place / "examples", f"-DCMAKE_PREFIX_PATH={place / 'installed'}", *common)
    run("cmake", "--build", place / "examples")
    return place / "examples"


@pytest.mark.parametrize("name", ["chat_rooms", "webhooks", "agents"])
def test_an_example_prints_what_the_manual_says(programs, name):
    manual = MANUAL.read_text()
    section = manual[manual.index(f"`{name}.cpp`"):]
    code = re.search(r"```cpp\n(.*?)```", section, re.S)[1]
    assert code == (EXAMPLES / f"{name}.cpp").read_text(), "the manual shows another program than the example"
    expected = re.search(r"```text\n(.*?)```", section, re.S)[1]
    assert run(programs / name) == expected


def test_the_headers_read_as_a_manual(tmp_path):
    library = ROOT / "src/dispatch"
    settings = (library / "Doxyfile").read_text() + f"OUTPUT_DIRECTORY = {tmp_path}\n"
    done = subprocess.run(["doxygen", "-"], input=settings, cwd=library, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "What it promises" in (tmp_path / "html/index.html").read_text()
    assert "Waits until the session has no unfinished task" in "".join(
        page.read_text() for page in (tmp_path / "html").glob("class*Dispatcher.html"))
