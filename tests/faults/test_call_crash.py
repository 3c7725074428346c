"""kill -9 of the server under load, again and again. The history checker decides."""

import os
import random
import signal

import pytest

from load import Load, Server, deploy_record

KILLS = 30


@pytest.mark.parametrize("runtime", ["python", "node"])
def test_nothing_acknowledged_is_lost_or_doubled_by_kills(tmp_path, runtime):
    seed = int(os.environ.get("NIMBUS_SEED", random.randrange(2**31)))
    print(f"NIMBUS_SEED={seed}")
    rng = random.Random(seed)
    with Server(tmp_path) as server:
        deploy_record(server, runtime)
    with Load(sessions=6, callers=12, seed=seed) as load:
        for _ in range(KILLS // 2):
            with Server(tmp_path) as server:
                load.server = server
                enough = len(load.records) + rng.randrange(20, 120)
                load.wait_for(lambda: len(load.records) >= enough)
                server.send_signal(signal.SIGKILL)
                load.server = None
                server.wait()
    with Server(tmp_path) as server:
        load.finish(server)
    history = load.save(tmp_path / "history.jsonl")
    assert load.acknowledged > 20 * KILLS // 2, "too little happened to prove anything"
    assert load.wrong() == [], f"NIMBUS_SEED={seed}, {history}"
