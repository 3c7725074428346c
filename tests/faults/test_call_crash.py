"""kill -9 of the server under load, again and again. The history checker decides."""

import concurrent.futures
import itertools
import json
import os
import pathlib
import random
import signal
import sys
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests/e2e"), str(ROOT / "tests/history")]

from check import check  # noqa: E402
from harness import Server  # noqa: E402

KILLS = 30
SESSIONS = 6
CALLERS = 12

# Now and then it fails, or dies, after it has written.
CODE = {
    "python": """
import os
def handle(event, state):
    seen = state.get("calls", [])
    state.set("calls", seen + [event["call"]], ttl=-1)
    if event["deed"] == "raise": raise ValueError("as told")
    if event["deed"] == "die": os._exit(1)
    return seen
""",
    "node": """
exports.handle = async (event, state) => {
  const seen = (await state.get("calls")) || [];
  await state.set("calls", seen.concat([event.call]), -1);
  if (event.deed === "raise") throw new Error("as told");
  if (event.deed === "die") process.exit(1);
  return seen;
};
""",
}


class Load:
    """Callers that keep on calling, whatever happens to the server, and write down what they see."""

    def __init__(self, seed):
        self.server = None
        self.records = []
        self.ids = itertools.count()
        self.stopping = threading.Event()
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.run, args=(seed + n,)) for n in range(CALLERS)]

    def run(self, seed):
        rng = random.Random(seed)
        while not self.stopping.is_set():
            server = self.server
            if server is None:
                time.sleep(0.001)
                continue
            call = f"c{next(self.ids)}"
            deed = rng.choices(["succeed", "raise", "die"], [94, 4, 2])[0]
            record = {"session": f"s{rng.randrange(SESSIONS)}", "call": call, "sent": time.monotonic()}
            try:
                answer = server.invoke("record", {"call": call, "deed": deed}, session=record["session"])
                self.note(record, answer)
            except (OSError, ValueError) as _:
                record |= {"outcome": "unknown"}
            record["answered"] = time.monotonic()
            with self.lock:
                self.records.append(record)

    @staticmethod
    def note(record, answer):
        seq = answer.headers["Nimbus-Session-Seq"]
        if seq is not None:
            record["seq"] = int(seq)
        if answer.status == 200:
            record |= {"outcome": "ok", "seen": answer.json["body"]}
        elif answer.json["code"] in ("function_error", "function_crashed"):
            record["outcome"] = "failed"
        else:
            # The platform failed: it says what became of the call.
            record["outcome"] = "failed" if answer.json["outcome"] == "not_applied" else "unknown"


@pytest.mark.parametrize("runtime", ["python", "node"])
def test_nothing_acknowledged_is_lost_or_doubled_by_kills(tmp_path, runtime):
    seed = int(os.environ.get("NIMBUS_SEED", random.randrange(2**31)))
    print(f"NIMBUS_SEED={seed}")
    rng = random.Random(seed)
    load = Load(seed)
    with Server(tmp_path) as server:
        server.deploy("record", CODE[runtime], runtime=runtime,
                      state_config={"max_state_size": 0, "default_ttl": 0, "session_timeout": 0})
    for thread in load.threads:
        thread.start()
    try:
        for _ in range(KILLS // 2):
            with Server(tmp_path) as server:
                load.server = server
                enough = len(load.records) + rng.randrange(20, 120)
                deadline = time.monotonic() + 20
                while len(load.records) < enough and time.monotonic() < deadline:
                    time.sleep(0.001)
                server.send_signal(signal.SIGKILL)
                load.server = None
                server.wait()
    finally:
        load.stopping.set()
        for thread in load.threads:
            thread.join()
    with Server(tmp_path) as server:
        for name in {record["session"] for record in load.records}:
            stored = server.api("GET", f"/functions/record/state/{name}/calls").json
            shown = server.api("GET", f"/functions/record/sessions/{name}").json
            load.records.append({"session": name, "stored": stored, "next_seq": shown["next_seq"]})
    history = tmp_path / "history.jsonl"
    history.write_text("".join(json.dumps(record) + "\n" for record in load.records))
    acknowledged = sum(record.get("outcome") == "ok" for record in load.records)
    assert acknowledged > 20 * KILLS // 2, "too little happened to prove anything"
    assert check(load.records) == [], f"NIMBUS_SEED={seed}, {history}"
