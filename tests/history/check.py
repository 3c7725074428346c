#!/usr/bin/env python3
"""Whether a recorded history of calls keeps the promises of a server that runs them one at a time.

Exits with 0 if it does, with 1 if it does not (each broken promise is a line), with 2 if it cannot be read. The
format of a history is in README.md, beside this program.
"""

import argparse
import collections
import json
import sys

OUTCOMES = ("ok", "failed", "unknown")


def check(records):
    """The ways in which the history breaks a promise, as sentences; none if it keeps them all."""
    sessions = collections.defaultdict(lambda: {"calls": [], "stored": None, "next_seq": None, "version": None})
    for record in records:
        session = sessions[record["session"]]
        if "call" in record:
            session["calls"].append(record)
        else:
            session["stored"] = record["stored"]
            session["next_seq"] = record.get("next_seq")
            session["version"] = record.get("version")
    wrong = []
    for name, session in sorted(sessions.items()):
        wrong += [f"session {name}: {what}" for what in check_session(**session)]
    return wrong


def check_session(calls, stored, next_seq, version):
    if stored is None:
        return ["nothing says what it held at the end"]
    return (check_effects(calls, stored) + check_numbers(calls, next_seq) + check_order(calls, stored)
            + check_instances(calls) + check_versions(calls, stored, version))


def check_effects(calls, stored):
    """Nothing acknowledged is lost, nothing is there twice, nothing that failed is there."""
    wrong = []
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
    return wrong


def numbered_of(calls):
    return sorted((call for call in calls if call.get("seq") is not None), key=lambda call: call["seq"])


def check_numbers(calls, next_seq):
    """No number twice, none that is still to come, none but what the function was told."""
    wrong = []
    numbered = numbered_of(calls)
    for seq, times in collections.Counter(call["seq"] for call in numbered).items():
        if times > 1:
            wrong.append(f"number {seq} was answered with {times} times")
    if next_seq is not None:
        for call in numbered:
            if call["seq"] >= next_seq:
                wrong.append(f"{call['call']} has number {call['seq']}, but {next_seq} is said to be the next")
    for call in numbered:
        if call.get("told", call["seq"]) != call["seq"]:
            wrong.append(f"{call['call']} was answered with number {call['seq']}, and told {call['told']}")
    return wrong


def check_order(calls, stored):
    """Numbers, effects and what callers know of time are of one order, and each call saw what came before it."""
    wrong = []
    numbered = numbered_of(calls)
    # In the order of their numbers: each began after whatever was answered before it was sent.
    latest = None  # of those before, the one that was sent last
    for call in numbered:
        if latest is not None and call["answered"] < latest["sent"]:
            wrong.append(f"{call['call']} was answered before {latest['call']} was sent, and has a higher number")
        if latest is None or call["sent"] > latest["sent"]:
            latest = call

    place = {call: n for n, call in enumerate(stored)}
    done = [call for call in numbered if call["outcome"] == "ok" and call["call"] in place]
    for before, after in zip(done, done[1:]):
        if place[before["call"]] > place[after["call"]]:
            wrong.append(f"{before['call']} has a lower number than {after['call']}, and took effect after it")
    for call in done:
        if call["seen"] != stored[:place[call["call"]]]:
            wrong.append(f"{call['call']} did not see exactly what came before it")
    return wrong


def check_instances(calls):
    """By the clock of who ran them calls do not overlap, come in the order of their numbers, and lie between being sent
    and being answered."""
    wrong = []
    timed = [call for call in numbered_of(calls) if "began" in call]
    for call in timed:
        if not call["sent"] <= call["began"] <= call["ended"] <= call["answered"]:
            wrong.append(f"{call['call']} ran before it was sent, or after it was answered")
    latest = None  # of those before, the one that ended last
    for call in timed:
        if latest is not None and call["began"] < latest["ended"]:
            wrong.append(f"{call['call']} began before {latest['call']}, whose number is lower, had ended")
        if latest is None or call["ended"] > latest["ended"]:
            latest = call
    return wrong


def check_versions(calls, stored, version):
    """The versions that acknowledged calls gave grow with their effects, by one for each effect at least; what is stored
    at last has a version that is not older."""
    wrong = []
    by_id = {call["call"]: call for call in calls if call["outcome"] == "ok" and "version" in call}
    before = None  # (place, version, call)
    for place, call in enumerate(stored):
        if call not in by_id:
            continue
        given = by_id[call]["version"]
        if before is not None and given < before[1] + place - before[0]:
            wrong.append(f"{call} gave version {given}, and {before[2]} before it {before[1]}")
        before = (place, given, call)
    if before is not None and version is not None and version < before[1] + len(stored) - 1 - before[0]:
        wrong.append(f"what is stored has version {version}, and {before[2]} gave {before[1]}")
    return wrong


def read(lines):
    """The records of a history. ValueError, with the number of the line, where it is none."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            if "call" in record:
                wanted = {"session", "call", "sent", "answered", "outcome"}
                wanted |= {"seen"} if record.get("outcome") == "ok" else set()
                wanted |= {"ended"} if "began" in record else set()
                if record.get("outcome") not in OUTCOMES:
                    raise ValueError(f"\"outcome\" is one of {', '.join(OUTCOMES)}")
            else:
                wanted = {"session", "stored"}
            if missing := wanted - record.keys():
                raise ValueError(f"\"{sorted(missing)[0]}\" is missing")
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"line {number} is no record: {error}") from None
        yield record


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("history", help="a file with one JSON object per line; - is the standard input")
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing if every promise was kept")
    options = parser.parse_args(arguments)
    try:
        with (sys.stdin if options.history == "-" else open(options.history)) as lines:
            records = list(read(lines))
    except (OSError, ValueError) as error:
        print(f"{options.history}: {error}", file=sys.stderr)
        return 2
    wrong = check(records)
    if wrong:
        print("\n".join(wrong))
    elif not options.quiet:
        calls = collections.Counter(record["outcome"] for record in records if "call" in record)
        sessions = len({record["session"] for record in records})
        print(f"every promise was kept: {sum(calls.values())} calls in {sessions} sessions, "
              + ", ".join(f"{calls[outcome]} {outcome}" for outcome in OUTCOMES))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
