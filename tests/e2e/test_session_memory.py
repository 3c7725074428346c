"""Sessions leave the memory when they are not called, or when there are too many, and come back as they were."""

import re

from harness import Server
from test_metrics import eventually

COUNTER = "def handle(event, state): return state.incr('n')"


def figure(server, name):
    return float(re.search(rf"^{re.escape(name)} (\S+)$", server.get("/metrics", key=server.key).text, re.M).group(1))


def test_a_session_that_nobody_calls_leaves_the_memory(tmp_path):
    with Server(tmp_path, "--set", "state.session.cache_ttl=0.2") as server:
        server.deploy("count", COUNTER)
        for n in (1, 2, 3):
            answer = server.invoke("count", session="a")
            assert (answer.json["body"], answer.headers["Nimbus-Session-Seq"]) == (n, str(n))
            eventually(lambda: figure(server, "nimbus_sessions_in_memory") == 0)
            assert figure(server, "nimbus_sessions_in_memory_bytes") == 0


def test_sessions_take_no_more_memory_than_they_may(tmp_path):
    budget = 1 << 20
    with Server(tmp_path, "--set", "state.session.memory_mb=1", "--set", "state.session.cache_ttl=3600") as server:
        server.deploy("count", "def handle(event, state):\n    state.set('pad', 'x' * 10000)\n    return state.incr('n')")
        sessions = [f"s{i}" for i in range(300)]
        for n in (1, 2):
            for session in sessions:
                answer = server.invoke("count", session=session)
                assert (answer.json["body"], answer.headers["Nimbus-Session-Seq"]) == (n, str(n)), session
            eventually(lambda: figure(server, "nimbus_sessions_in_memory_bytes") <= budget)
            held = figure(server, "nimbus_sessions_in_memory")
            assert 50 < held < 100, "as many as there is room for"
        # Those called last are the ones that stay.
        before = figure(server, 'nimbus_session_route_total{function_id="count",result="miss"}')
        server.invoke("count", session=sessions[-1])
        assert figure(server, 'nimbus_session_route_total{function_id="count",result="miss"}') == before
