"""The checker finds what is planted, and nothing where there is nothing."""

import copy
import random

import pytest

from check import check


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
                if outcome == "ok":
                    record |= {"seq": seq, "seen": list(stored)}
                elif outcome == "failed":
                    record |= {"seq": seq}
                if outcome == "ok" or (outcome == "unknown" and rng.random() < 0.5):
                    stored.append(call)
                records.append(record)
            clock += 1.0
        records.append({"session": f"s{s}", "stored": stored, "next_seq": seq + 1})
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


@pytest.mark.parametrize("plant", [
    lose_an_acknowledged_call, double_an_effect, use_a_number_twice, keep_what_failed, run_two_calls_at_once,
    run_out_of_order, number_against_time, go_back_with_the_numbers, invent_a_call, read_stale_state])
@pytest.mark.parametrize("seed", range(5))
def test_what_is_planted_is_found(plant, seed):
    history = copy.deepcopy(good_history(seed))
    plant(history)
    assert check(history) != []
