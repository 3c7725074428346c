"""The checker finds what is planted, and nothing where there is nothing."""

import copy
import io
import json
import pathlib
import random
import subprocess
import sys

import pytest

from check import check, main, read


def good_history(seed=1, sessions=3, calls=30):
    """What a server that keeps its promises might leave: some calls overlap, fail, or are not answered."""
    rng = random.Random(seed)
    records = []
    for s in range(sessions):
        stored, clock, seq = [], 0.0, 0
        waiting = [f"s{s}c{n}" for n in range(calls)]
        while waiting:
            batch, waiting = waiting[:3], waiting[3:]  # sent at once, run in any order
            sent = clock
            rng.shuffle(batch)
            for call in batch:
                seq += 1
                clock += 1.0
                outcome = rng.choice(["ok", "ok", "ok", "failed", "unknown"])
                record = {"session": f"s{s}", "call": call, "sent": sent, "answered": clock, "outcome": outcome}
                ran = {"seq": seq, "began": clock - 0.5, "ended": clock - 0.25}
                if outcome == "ok":
                    record |= {**ran, "told": seq, "seen": list(stored), "version": len(stored) + 1}
                elif outcome == "failed":
                    record |= ran
                if outcome == "ok" or (outcome == "unknown" and rng.random() < 0.5):
                    stored.append(call)
                records.append(record)
            clock += 1.0
        records.append({"session": f"s{s}", "stored": stored, "next_seq": seq + 1, "version": len(stored)})
    return records


@pytest.mark.parametrize("seed", range(20))
def test_a_good_history_passes(seed):
    assert check(good_history(seed)) == []


def acknowledged(history, session="s0"):
    return [r for r in history if r["session"] == session and r.get("outcome") == "ok"]


def final(history, session="s0"):
    return next(r for r in history if r["session"] == session and "stored" in r)


def lose_an_acknowledged_call(history):
    final(history)["stored"].remove(acknowledged(history)[3]["call"])


def double_an_effect(history):
    stored = final(history)["stored"]
    stored.insert(2, stored[1])


def use_a_number_twice(history):
    calls = acknowledged(history)
    calls[4]["seq"] = calls[3]["seq"]


def keep_what_failed(history):
    failed = next(r for r in history if r["session"] == "s0" and r.get("outcome") == "failed")
    final(history)["stored"].append(failed["call"])


def run_two_calls_at_once(history):
    # The second did not see the first.
    calls = acknowledged(history)
    calls[5]["seen"] = list(calls[4]["seen"])


def run_out_of_order(history):
    stored = final(history)["stored"]
    calls = [call["call"] for call in acknowledged(history)]
    a, b = stored.index(calls[2]), stored.index(calls[6])
    stored[a], stored[b] = stored[b], stored[a]


def number_against_time(history):
    calls = acknowledged(history)
    calls[1]["seq"], calls[8]["seq"] = calls[8]["seq"], calls[1]["seq"]


def go_back_with_the_numbers(history):
    final(history)["next_seq"] = acknowledged(history)[-1]["seq"]


def invent_a_call(history):
    final(history)["stored"].append("nobody")


def read_stale_state(history):
    calls = acknowledged(history)
    calls[7]["seen"] = calls[7]["seen"][:-1]


def overlap_in_the_instances(history):
    calls = acknowledged(history)
    calls[4]["ended"] = calls[5]["began"] + 0.1


def overlap_with_one_that_failed(history):
    failed = next(r for r in history if r["session"] == "s0" and r.get("outcome") == "failed")
    after = next(r for r in history if r["session"] == "s0" and r.get("seq", 0) > failed["seq"])
    after["began"] = failed["began"]


def run_in_another_order_than_numbered(history):
    calls = acknowledged(history)
    for member in ("began", "ended"):
        calls[2][member], calls[3][member] = calls[3][member], calls[2][member]


def run_before_it_was_sent(history):
    calls = acknowledged(history)
    calls[0]["began"] = calls[0]["sent"] - 1


def answer_with_another_number_than_told(history):
    acknowledged(history)[3]["told"] += 1


def repeat_a_version(history):
    calls = acknowledged(history)
    calls[5]["version"] = calls[4]["version"]


def go_back_with_the_versions(history):
    final(history)["version"] = acknowledged(history)[-1]["version"] - 1


def forget_a_session(history):
    history.remove(final(history))


@pytest.mark.parametrize("plant", [
    overlap_in_the_instances, overlap_with_one_that_failed, run_in_another_order_than_numbered, run_before_it_was_sent,
    answer_with_another_number_than_told, repeat_a_version, go_back_with_the_versions, forget_a_session,
    lose_an_acknowledged_call, double_an_effect, use_a_number_twice, keep_what_failed, run_two_calls_at_once,
    run_out_of_order, number_against_time, go_back_with_the_numbers, invent_a_call, read_stale_state])
@pytest.mark.parametrize("seed", range(5))
def test_what_is_planted_is_found(plant, seed):
    history = copy.deepcopy(good_history(seed))
    plant(history)
    assert check(history) != []


def text_of(history):
    return "".join(json.dumps(record) + "\n" for record in history)


def test_it_is_a_program(tmp_path):
    program = pathlib.Path(__file__).parent / "check.py"
    history = tmp_path / "history.jsonl"

    def run(text, *options):
        history.write_text(text)
        done = subprocess.run([sys.executable, program, *options, history], capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    good = good_history()
    code, said, _ = run(text_of(good))
    assert code == 0 and said.startswith("every promise was kept: 90 calls in 3 sessions")
    assert run(text_of(good), "--quiet") == (0, "", "")
    lose_an_acknowledged_call(good)
    code, said, _ = run(text_of(good))
    assert code == 1 and "was acknowledged and is lost" in said
    code, said, why = run(text_of(good) + "{\n")
    assert (code, said) == (2, "") and "line 94 is no record" in why


def test_it_reads_standard_input(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO(text_of(good_history())))
    assert main(["-"]) == 0
    assert "every promise was kept" in capsys.readouterr().out


@pytest.mark.parametrize("line, why", [
    ("[1]", "no record"),
    ('{"session": "s"}', '"stored" is missing'),
    ('{"session": "s", "call": "c", "sent": 1, "answered": 2, "outcome": "good"}', "outcome"),
    ('{"session": "s", "call": "c", "sent": 1, "answered": 2, "outcome": "ok"}', '"seen" is missing'),
    ('{"session": "s", "call": "c", "sent": 1, "answered": 2, "outcome": "failed", "began": 1}', '"ended" is missing'),
])
def test_what_is_no_record_is_told_by_its_line(line, why):
    with pytest.raises(ValueError, match="line 2") as told:
        list(read(["", line]))
    assert why in str(told.value)
