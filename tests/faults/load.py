"""Callers that go on whatever happens to the server, and the history of what they saw.

    with Load(sessions=6, callers=12, seed=seed) as load:
        load.server = server
        load.wait_for(lambda: load.acknowledged > 100)
    load.finish(server)   # notes what is stored
    assert load.wrong() == []

The function that is called (RECORD) appends the call's id to a list in its session's state and answers with the
list as it was. tests/history/README.md has the format.
"""

import collections
import itertools
import json
import pathlib
import random
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests/e2e"), str(ROOT / "tests/history")]

from check import check  # noqa: E402
from harness import Server  # noqa: E402, F401

# Now and then it fails, or dies, after it has written. Both languages show the system's monotonic clock.
RECORD = {
    "python": """
import json, os, time
def handle(event, state, context):
    times = {"began": time.monotonic()}
    seen = state.get("calls", [])
    times["version"] = state.set_with_version("calls", seen + [event["call"]], ttl=-1)
    if event["size"]: state.set("ballast " + event["call"], "x" * event["size"], ttl=-1)
    times["ended"] = time.monotonic()
    if event["deed"] == "raise": raise ValueError(json.dumps(times))
    if event["deed"] == "die": os._exit(1)
    return {"seen": seen, "told": context.session_seq, **times}
""",
    "node": """
const now = () => Number(process.hrtime.bigint()) / 1e9;
exports.handle = async (event, state, context) => {
  const times = { began: now() };
  const seen = (await state.get("calls")) || [];
  times.version = await state.set_with_version("calls", seen.concat([event.call]), undefined, -1);
  if (event.size) await state.set("ballast " + event.call, "x".repeat(event.size), -1);
  times.ended = now();
  if (event.deed === "raise") throw new Error(JSON.stringify(times));
  if (event.deed === "die") process.exit(1);
  return { seen, told: context.session_seq, ...times };
};
""",
}
SETTINGS = {"state_config": {"max_state_size": 0, "max_keys": 0, "default_ttl": 0, "session_timeout": 0}}


def deploy_record(server, runtime="python"):
    server.deploy("record", RECORD[runtime], runtime=runtime, **SETTINGS)


class Load:
    """`server` may be changed at any time; with None the callers wait. `size`: how much each call writes besides."""

    def __init__(self, sessions, callers, seed, name="s", raises=4, dies=2, size=0):
        self.server = None
        self.size = size
        self.records = []
        self.answers = collections.Counter()  # by code; 200 is "ok", no answer is "none"
        self.slowest = 0.0  # of those that were answered
        self.excuses = []  # problems of the platform's own
        self.odd = []  # answers that no fault excuses
        self._sessions = [f"{name}{n}" for n in range(sessions)]
        self._deeds = ["succeed", "raise", "die"], [100 - raises - dies, raises, dies]
        self._ids = itertools.count()
        self._stopping = threading.Event()
        self._changed = threading.Condition()
        self._threads = [threading.Thread(target=self._call, args=(random.Random(seed + n),)) for n in range(callers)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    @property
    def acknowledged(self):
        return self.answers["ok"]

    def acknowledged_since(self, begin):
        """The sessions in which a call was acknowledged that was sent after `begin`."""
        return {one["session"] for one in self.records if one["outcome"] == "ok" and one["sent"] > begin}

    def wait_for(self, is_so, patience=60):
        with self._changed:
            assert self._changed.wait_for(is_so, patience), f"it does not come about: {dict(self.answers)}"

    def _call(self, rng):
        while not self._stopping.is_set():
            server = self.server
            if server is None:
                time.sleep(0.001)
                continue
            call = f"c{next(self._ids)}"
            deed = rng.choices(*self._deeds)[0]
            record = {"session": rng.choice(self._sessions), "call": call, "sent": time.monotonic()}
            try:
                answer = server.invoke("record", {"call": call, "deed": deed, "size": self.size}, session=record["session"])
                code = self._note(record, answer)
            except (OSError, ValueError):
                record |= {"outcome": "unknown"}
                code = "none"
            record["answered"] = time.monotonic()
            with self._changed:
                self.records.append(record)
                self.answers[code] += 1
                if code != "none":
                    self.slowest = max(self.slowest, record["answered"] - record["sent"])
                self._changed.notify_all()

    def _note(self, record, answer):
        seq = answer.headers["Nimbus-Session-Seq"]
        if seq is not None:
            record["seq"] = int(seq)
        if answer.status == 200:
            record |= {"outcome": "ok", **answer.json["body"]}
            return "ok"
        problem = answer.json
        if answer.headers["Content-Type"] != "application/problem+json" or problem["status"] != answer.status:
            self.odd.append(answer.text)
        if problem["code"] == "function_error":
            record |= {"outcome": "failed", **json.loads(problem["error"]["message"])}
        elif problem["code"] == "function_crashed":
            record["outcome"] = "failed"
        else:
            # The platform failed: it says what became of the call.
            self.excuses.append(problem)
            record["outcome"] = "failed" if problem["outcome"] == "not_applied" else "unknown"
        return problem["code"]

    def finish(self, server):
        """Adds what the store holds at last."""
        for name in sorted({record["session"] for record in self.records}):
            stored = server.api("GET", f"/functions/record/state/{name}/calls")
            shown = server.api("GET", f"/functions/record/sessions/{name}")
            if shown.status == 404:
                self.records.append({"session": name, "stored": [], "next_seq": None})
                continue
            there = stored.status == 200
            self.records.append({"session": name, "stored": stored.json if there else [], "next_seq": shown.json["next_seq"],
                                 **({"version": int(stored.headers["ETag"].strip('"'))} if there else {})})

    def save(self, path):
        path.write_text("".join(json.dumps(record) + "\n" for record in self.records))
        return path

    def wrong(self):
        return check(self.records) + self.odd
