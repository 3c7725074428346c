"""What the documentation says is so: transcripts run, links lead somewhere, code can be read."""

import ast
import os
import pathlib
import re
import subprocess
import sys

import pytest

from harness import REPOSITORY, Server

RESTART = "the server is killed and started again"
ANYTHING = "…"
PAGES = sorted(
    path for path in REPOSITORY.rglob("*.md")
    if not any(part.startswith("build") or part in ("node_modules", ".git") for part in path.relative_to(REPOSITORY).parts)
)  # fmt: skip


def blocks_of(text):
    """Fenced blocks as (language, lines), and what comments ask for as (None, text)."""
    found = re.finditer(r"^```(\w*)\n(.*?)^```$|^<!-- (.*?) -->$", text, re.MULTILINE | re.DOTALL)
    return [(None, one[3]) if one[3] else (one[1], one[2].splitlines()) for one in found]


def commands_of(lines):
    """`$ command`, with `> ` before each line it goes on with, and the output that is expected."""
    commands = []
    for line in lines:
        if line.startswith("$ "):
            commands.append((line[2:], []))
        elif line == ">" or line.startswith("> "):
            commands[-1] = (commands[-1][0] + "\n" + line[2:], commands[-1][1])
        else:
            commands[-1][1].append(line)
    return commands


def fits(expected, line):
    """Whether they are the same, each … standing for anything."""
    return re.fullmatch(".*?".join(map(re.escape, expected.split(ANYTHING))), line) is not None


class Shell:
    """One bash that runs command after command, as a person's does."""

    END = "--- end of output ---"

    def __init__(self, directory, **env):
        path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
        self._bash = subprocess.Popen(
            ["bash", "--norc"], cwd=directory, text=True, bufsize=1, env={**os.environ, "PATH": path, **env},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def run(self, command):
        self._bash.stdin.write(f"{command}\necho '{self.END}'\n")
        self._bash.stdin.flush()
        lines = []
        for line in self._bash.stdout:
            if line.rstrip("\n").endswith(self.END):
                return lines
            lines.append(line.rstrip("\n"))
        raise AssertionError(f"bash has ended: {lines}")

    def close(self):
        self._bash.stdin.close()
        self._bash.stdout.close()
        self._bash.wait()


def test_the_quickstart_runs_as_written(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "sdk").symlink_to(REPOSITORY / "sdk")
    server = Server(tmp_path)
    (home / "nimbus-data").symlink_to(server.data)
    shell = Shell(home, PYTHONDONTWRITEBYTECODE="1", PYTEST_ADDOPTS="-p no:cacheprovider")
    ran = 0
    try:
        for language, content in blocks_of((REPOSITORY / "docs/quickstart.md").read_text()):
            if language is None and content == RESTART:
                server.close()
                server = Server(tmp_path)
                shell.run(f"export API={server.url}/api/v1")
            if language != "console":
                continue
            for command, expected in commands_of(content):
                output = shell.run(command.replace("http://127.0.0.1:8787", server.url))
                assert agree(expected, output), f"$ {command}\n" + "\n".join(output) + "\nis not\n" + "\n".join(expected)
                ran += 1
    finally:
        shell.close()
        server.close()
    assert ran > 20


def agree(expected, output):
    """A line that is only … stands for any number of lines."""
    if ANYTHING in expected:
        first = expected.index(ANYTHING)
        rest = len(expected) - first - 1
        return agree(expected[:first], output[:first]) and agree(expected[first + 1 :], output[len(output) - rest :])
    return len(expected) == len(output) and all(map(fits, expected, output))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", sorted(pathlib.Path(REPOSITORY / "docs").glob("*.md")), ids=lambda page: page.name)
def test_python_in_the_documentation_can_be_read(page):
    for language, content in blocks_of(page.read_text()):
        if language == "python":
            ast.parse("\n".join(content))


def test_every_page_is_on_the_map():
    written = (REPOSITORY / "docs/README.md").read_text()
    for page in (REPOSITORY / "docs").glob("*.md"):
        assert page.name == "README.md" or f"({page.name})" in written, page.name


def test_operations_of_the_http_page_are_those_of_the_server(server):
    paths = {re.sub(r"\{.*?\}", "{}", path) for path in server.get("/openapi.json").json["paths"]}
    written = re.findall(r"^\| `(?:GET|PUT|POST|DELETE|PATCH) (/\S*?)`", (REPOSITORY / "docs/http-api.md").read_text(), re.MULTILINE)
    assert written
    for path in written:
        assert re.sub(r"\{.*?\}", "{}", path.split("?")[0]) in paths, path


def test_the_program_for_other_languages_counts(server):
    text = (REPOSITORY / "docs/writing-functions.md").read_text()
    programs = ["\n".join(lines) for language, lines in blocks_of(text) if language == "python" and lines[0].startswith("#!")]
    assert len(programs) == 1
    definition = {"runtime": "exec", "handler": "counter", "files": {"counter": programs[0]}}
    assert server.api("PUT", "/functions/other", definition).status == 201
    assert [server.invoke("other", {}, session="a").json["body"] for _ in range(3)] == [1, 2, 3]
    assert server.invoke("other", {}, session="b").json["body"] == 1
