"""./test's promise: its last line is always `N passed, N failed`, and nothing else."""

import sys

import pytest

from harness import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tools"))
import run_tests  # noqa: E402

Count = run_tests.Count


def a_part_that_cannot_be_built():
    raise run_tests.BuildFailed("building it failed")


def a_part_whose_tool_is_missing():
    run_tests.run(["/no/such/program"])


PARTS = {
    "good": (lambda: Count(passed=3), ""),
    "bad": (lambda: Count(passed=1, failed=2), ""),
    "skipping": (lambda: Count(passed=1, skipped=4), ""),
    "unbuilt": (a_part_that_cannot_be_built, ""),
    "toolless": (a_part_whose_tool_is_missing, ""),
}


@pytest.mark.parametrize(
    "parts, last, code",
    [
        (["good"], "3 passed, 0 failed", 0),
        (["good", "bad"], "4 passed, 2 failed", 1),
        (["skipping", "good"], "4 passed, 0 failed", 0),
        (["unbuilt", "good"], "3 passed, 1 failed", 1),
        (["toolless", "good"], "3 passed, 1 failed", 1),
    ],
)
def test_the_last_line_counts_what_passed_and_what_failed(monkeypatch, capfd, parts, last, code):
    monkeypatch.setattr(run_tests, "PARTS", PARTS)
    assert run_tests.main(parts) == code
    assert capfd.readouterr().out.splitlines()[-1] == last


def test_what_was_skipped_is_said_before(monkeypatch, capfd):
    monkeypatch.setattr(run_tests, "PARTS", PARTS)
    run_tests.main(["skipping"])
    assert capfd.readouterr().out.splitlines()[-2:] == ["4 skipped", "1 passed, 0 failed"]


def test_a_build_that_fails_is_shown_and_fails_its_part_alone(tmp_path, monkeypatch, capfd):
    (tmp_path / "build-broken").mkdir()
    (tmp_path / "build-broken" / "build.ninja").write_text("this is no build file\n")
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    monkeypatch.setattr(run_tests, "PARTS", {"broken": (lambda: run_tests.build("broken"), ""), **PARTS})
    assert run_tests.main(["broken", "good"]) == 1
    said = capfd.readouterr().out
    assert "building broken failed" in said
    assert said.splitlines()[-1] == "3 passed, 1 failed"
