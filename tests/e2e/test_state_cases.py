"""The cases that the harnesses for authors are held to hold for the server too: tests/state_cases."""

import json
import pathlib
import sys
import time
import urllib.parse

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "state_cases"))

import cases  # noqa: E402

# The model they are made by is compared with the server at length elsewhere.
SOME = cases.WRITTEN + [cases.random_case(seed) for seed in range(1, 6)]


def on_server(server, function, case):
    outcomes = []
    for step in case["steps"]:
        if "advance" in step:
            time.sleep(step["advance"])  # nothing but time makes a key expire
        elif "delete" in step:
            key = urllib.parse.quote(step["delete"], safe="")
            assert server.api("DELETE", f"/functions/{function}/sessions/{key}").status == 204
        else:
            answer = server.invoke(function, cases.event_of(step), session=step.get("session", "session"))
            body = json.loads(answer.json["error"]["message"]) if step.get("fails") else answer.json["body"]
            outcomes.append({"status": answer.status, "body": body})
    return outcomes


@pytest.mark.parametrize("language", ["python", "node"])
@pytest.mark.parametrize("number", range(len(SOME)), ids=lambda number: SOME[number]["name"])
def test_the_server(server, language, number):
    case = SOME[number]
    function = f"case-{language}-{number}"
    definition = {"runtime": language, "files": cases.files_of(language)}
    answer = server.api("PUT", f"/functions/{function}", {**definition, "state_config": case.get("state_config", {})})
    assert answer.status == 201, answer.text
    cases.check(case, on_server(server, function, case))
