"""The harnesses for authors do what the server does: the same cases, in Python and in JavaScript."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

import cases

SDK = cases.HERE.parents[1] / "sdk"


@pytest.fixture(scope="module")
def python_handler():
    sys.path.insert(0, str(SDK / "python"))
    spec = importlib.util.spec_from_file_location("operations", cases.HERE / "functions/python/main.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.handle


@pytest.fixture(scope="module")
def node_outcomes():
    """Of all cases, in one process."""
    done = subprocess.run(
        ["node", str(cases.HERE / "node_harness.js")], input=json.dumps(cases.ALL), capture_output=True, text=True,
        timeout=120, env={**os.environ, "NODE_PATH": str(SDK / "node")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {case["name"]: outcome for case, outcome in zip(cases.ALL, json.loads(done.stdout))}


def on_python(handler, case):
    from nimbus.testing import Function

    function = Function(handler, state_config=case.get("state_config"))
    outcomes = []
    for step in case["steps"]:
        if "advance" in step:
            function.clock.advance(step["advance"])
        elif "delete" in step:
            function.session(step["delete"]).delete()
        else:
            session = step.get("session", "session")
            caller = function if session is None else function.session(session)
            answer = caller.call(cases.event_of(step))
            body = answer.body if answer.error is None else json.loads(answer.error["message"])
            outcomes.append({"status": answer.status_code, "body": body})
    return outcomes


@pytest.mark.parametrize("case", cases.ALL, ids=lambda case: case["name"])
def test_the_python_harness(python_handler, case):
    cases.check(case, on_python(python_handler, case))


@pytest.mark.parametrize("case", cases.ALL, ids=lambda case: case["name"])
def test_the_node_harness(node_outcomes, case):
    cases.check(case, node_outcomes[case["name"]])
