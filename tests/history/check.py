#!/usr/bin/env python3
"""Whether a recorded history of calls keeps the promises. See README.md."""

import collections
import json
import sys


def check(records):
    """The ways in which the history breaks a promise, as sentences; none if it keeps them all."""
    sessions = collections.defaultdict(lambda: {"calls": [], "stored": None, "next_seq": None})
    for record in records:
        session = sessions[record["session"]]
        if "call" in record:
            session["calls"].append(record)
        else:
            session["stored"] = record["stored"]
            session["next_seq"] = record["next_seq"]
    wrong = []
    for name, session in sorted(sessions.items()):
        wrong += [f"session {name}: {what}" for what in check_session(**session)]
    return wrong


def check_session(calls, stored, next_seq):
    wrong = []
    if stored is None:
        return ["nothing says what it held at the end"]
    place = {call: n for n, call in enumerate(stored)}
    by_id = {call["call"]: call for call in calls}

    for call, times in collections.Counter(stored).items():
        if times > 1:
            wrong.append(f"{call} took effect {times} times")
        if call not in by_id:
            wrong.append(f"{call} is stored, and nobody sent it")
    for call in calls:
        if call["outcome"] == "ok" and call["call"] not in place:
            wrong.append(f"{call['call']} was acknowledged and is lost")
        if call["outcome"] == "failed" and call["call"] in place:
            wrong.append(f"{call['call']} failed and took effect")

    numbered = [call for call in calls if call.get("seq") is not None]
    for seq, times in collections.Counter(call["seq"] for call in numbered).items():
        if times > 1:
            wrong.append(f"number {seq} was answered with {times} times")
    if next_seq is not None:
        for call in numbered:
            if call["seq"] >= next_seq:
                wrong.append(f"{call['call']} has number {call['seq']}, but {next_seq} is said to be the next")

    # In the order of their numbers: each began after whatever was answered before it was sent.
    numbered.sort(key=lambda call: call["seq"])
    latest = None  # of those before, the one that was sent last
    for call in numbered:
        if latest is not None and call["answered"] < latest["sent"]:
            wrong.append(f"{call['call']} was answered before {latest['call']} was sent, and has a higher number")
        if latest is None or call["sent"] > latest["sent"]:
            latest = call

    done = [call for call in numbered if call["outcome"] == "ok" and call["call"] in place]
    for before, after in zip(done, done[1:]):
        if place[before["call"]] > place[after["call"]]:
            wrong.append(f"{before['call']} has a lower number than {after['call']}, and took effect after it")
    for call in done:
        if call["seen"] != stored[:place[call["call"]]]:
            wrong.append(f"{call['call']} did not see exactly what came before it")
    return wrong


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    with open(arguments[0]) as history:
        wrong = check(json.loads(line) for line in history)
    print("\n".join(wrong) if wrong else "every promise was kept")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
