"""The cases that every way to run a function is held to: see README.md."""

import json
import pathlib
import random
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

import state_model  # noqa: E402

WRITTEN = json.loads((HERE / "cases.json").read_text())

# How late a call may be on a busy machine, in seconds.
LATENESS = 45


def files_of(language):
    """The function that carries out operations, by file name."""
    return {path.name: path.read_text() for path in (HERE / "functions" / language).iterdir() if path.is_file()}


def event_of(step):
    event = {"operations": [one["do"] for one in step["call"]], "fails": step.get("fails", False)}
    return {**event, "returns": step["returns"]} if "returns" in step else event


def calls_of(case):
    return [step for step in case["steps"] if "call" in step]


def check(case, outcomes):
    """`outcomes`: {"status", "body"} of each call, the body of one that failed being what its error says."""
    steps = calls_of(case)
    assert len(outcomes) == len(steps)
    for step, outcome in zip(steps, outcomes):
        fails = step.get("fails", False)
        assert outcome["status"] == step.get("status", 500 if fails else 200), (step, outcome)
        if "returns" in step:
            assert outcome["body"] == step["body"]
            continue
        assert len(outcome["body"]) == len(step["call"])
        for wanted, got in zip(step["call"], outcome["body"]):
            check_one(wanted, got)


def check_one(wanted, got):
    if "about" in wanted:
        assert wanted["about"] - LATENESS < got["is"] <= wanted["about"], (wanted, got)
    else:
        expected = {name: wanted[name] for name in ("is", "refused", "current_version") if name in wanted}
        assert got == expected, (wanted, got)


def random_case(seed):
    """What the model of the server's own tests says of random operations."""
    rng = random.Random(seed)
    function, sessions = state_model.Space(), {name: state_model.Space() for name in "ab"}
    steps = []
    for _ in range(20):
        name = rng.choice("ab")
        spaces = {"": sessions[name], "function.": function, "invocation.": state_model.Space()}
        sessions[name].begin()
        call = [random_operation(rng, spaces) for _ in range(rng.randrange(1, 9))]
        fails = rng.random() < 0.15
        sessions[name].roll_back() if fails else sessions[name].end()
        steps.append({"session": name, "fails": fails, "call": call})
    config = {"max_keys": state_model.MAX_KEYS, "max_state_size": state_model.MAX_VALUE}
    return {"name": f"random operations of seed {seed}", "state_config": config, "steps": steps}


def random_operation(rng, spaces):
    scope = rng.choice([""] * 4 + ["function.", "invocation."])
    operation, arguments = state_model.random_operation(rng)
    space = spaces[scope]
    before = len(space.entries)
    given = arguments[:2] if operation == "set_with_version" and arguments[2] is None else arguments
    do = [scope + operation, *given]
    try:
        answer = space.apply(operation, arguments)
    except state_model.Refused as refused:
        conflict = {} if refused.current_version is None else {"current_version": refused.current_version}
        return {"do": do, "refused": refused.code, **conflict}
    # What the model leaves open.
    answer = {"clear": before, "expire": True, "persist": True, "set_many": True}.get(operation, answer)
    return {"do": do, "is": answer}


ALL = WRITTEN + [random_case(seed) for seed in range(1, 31)]
