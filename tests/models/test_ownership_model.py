"""Ownership of a session among nodes, checked exhaustively by Spin. Each rule is also left out once: a model in
which that goes unnoticed would prove nothing."""

import pathlib
import re
import subprocess

import pytest

MODEL = pathlib.Path(__file__).resolve().parents[2] / "src/cluster/model/ownership.pml"


def errors(tmp_path, *defines):
    options = [f"-D{name}" for name in defines]
    subprocess.run(["spin", *options, "-a", str(MODEL)], cwd=tmp_path, check=True)
    subprocess.run(["gcc", "-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c"], cwd=tmp_path, check=True)
    found = subprocess.run(["./pan", "-m1000000", "-w24"], cwd=tmp_path, capture_output=True, text=True).stdout
    assert "Search not completed" not in found or defines, found
    assert "error: max search depth" not in found, found
    print(found)
    return int(re.search(r"errors: (\d+)", found)[1])


def test_nobody_writes_or_answers_on_what_is_old(tmp_path):
    assert errors(tmp_path) == 0


@pytest.mark.parametrize("rule", ["NO_FENCE", "NO_MARGIN", "OLD_VIEW", "KEY_RETURNS", "CLAIM_BLINDLY"])
def test_a_rule_that_is_left_out_is_missed(tmp_path, rule):
    assert errors(tmp_path, rule) > 0
