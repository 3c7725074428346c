"""Every example has what a function should have, its tests pass without a server, and it works on a real one."""

import os
import shutil
import subprocess
import sys

import pytest

from harness import PATIENCE, REPOSITORY, Server

FUNCTIONS = REPOSITORY / "examples" / "functions"
EXAMPLES = sorted(path.name for path in FUNCTIONS.iterdir() if path.is_dir())


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The examples beside the package that those in JavaScript import."""
    place = tmp_path_factory.mktemp("examples")
    shutil.copytree(FUNCTIONS, place / "functions", ignore=shutil.ignore_patterns("__pycache__"))
    (place / "node_modules").mkdir()
    (place / "node_modules" / "nimbus-state").symlink_to(REPOSITORY / "sdk" / "node" / "nimbus-state")
    return place / "functions"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("server"), "--functions", str(FUNCTIONS)) as running:
        yield running


def test_there_are_six():
    assert EXAMPLES == ["cart", "chat", "counter", "game", "rate-limited", "report"]


@pytest.mark.parametrize("example", EXAMPLES)
def test_it_has_what_a_function_should_have(example):
    for name in ("README.md", "function.yaml", "tests"):
        assert (FUNCTIONS / example / name).exists(), name
    assert f"({example})" in (FUNCTIONS / "README.md").read_text()


@pytest.mark.parametrize("example", EXAMPLES)
def test_its_own_tests_pass(folders, example):
    tests = folders / example / "tests"
    if any(tests.glob("*.py")):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(folders / example)]
    else:
        command = ["node", "--test", *map(str, tests.iterdir())]
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY / "sdk" / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=folders, env=env, capture_output=True, text=True, timeout=4 * PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_all_are_deployed_with_their_settings(server):
    deployed = {function["id"]: function for function in server.api("GET", "/functions").json["items"]}
    assert sorted(deployed) == EXAMPLES
    assert deployed["report"]["retry"] == {"max_attempts": 5, "initial_ms": 2000, "factor": 2, "max_ms": 60000}
    assert deployed["report"]["state_config"]["on_error"] == "keep"
    assert deployed["game"]["state_config"]["default_ttl"] == 86400


def test_a_game_is_played(server):
    def play(action, **more):
        return server.invoke("game", {"action": action, **more}, session="game-1")

    for player in ("ann", "ben"):
        assert play("join", player=player).status == 200
    assert play("move", player="ben", cell=0).status == 409
    for player, cell in zip(["ann", "ben"] * 3, [0, 3, 1, 4, 2]):
        last = play("move", player=player, cell=cell)
        assert last.status == 200, last.text
    assert last.json["body"]["result"] == "ann wins"
    assert play("move", player="ben", cell=8).json["body"]["error"] == "the game is over"


def test_the_sixth_call_of_a_caller_is_refused(server):
    answers = [server.invoke("rate-limited", {"name": "Ann"}, session="ann") for _ in range(6)]
    assert [answer.status for answer in answers] == [200] * 5 + [429]
    assert 0 < answers[-1].json["body"]["retry_after_s"] <= 60
    assert server.invoke("rate-limited", {}, session="ben").status == 200


def test_a_report_is_made_and_shown(server):
    assert server.invoke("report", {"action": "show"}, session="team").status == 404
    made = server.invoke("report", {"month": "2026-01"}, session="team").json["body"]
    assert made["attempts"] == 1
    assert server.invoke("report", {"action": "show"}, session="team").json["body"] == made
    assert server.api("GET", "/functions/report/state/team").json["keys"][0]["key"] == "report"
