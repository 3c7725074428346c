"""Several nodes on one store: every session has one owner, and any node may be asked."""

import collections
import http.client
import json
import signal
import threading
import time

import pytest
from nodes import LEASE_MS, STORES, Nodes

COUNTER = "def handle(event, state):\n    return state.incr('n')\n"
SLOW = """
import time
def handle(event, state):
    time.sleep(event["seconds"])
    return state.incr('n')
"""


@pytest.fixture(params=STORES)
def nodes(tmp_path, request):
    with Nodes(tmp_path, request.param) as running:
        running[0].deploy("counter", COUNTER)
        running.wait_for(lambda: all(node.api("GET", "/functions/counter").status == 200 for node in running))
        yield running


def owner_of(nodes, session, function="counter"):
    """The node that owns a session, and the others."""
    shown = nodes.alive()[0].api("GET", f"/functions/{function}/sessions/{session}").json
    owner = next(node for node in nodes.alive() if nodes.id_of(node) == shown["node_id"])
    return owner, [node for node in nodes.alive() if node is not owner]


def test_calls_of_a_session_count_on_wherever_they_are_sent(nodes):
    answers = collections.defaultdict(list)
    for n in range(90):
        session = f"s{n % 9}"
        answers[session].append(nodes[n % 3 if n % 2 else (n // 3) % 3].invoke("counter", None, session))
    owners = set()
    for given in answers.values():
        assert [answer.status for answer in given] == [200] * 10, [answer.text for answer in given]
        assert [answer.json["body"] for answer in given] == list(range(1, 11))
        assert [answer.headers["Nimbus-Session-Seq"] for answer in given] == [str(n) for n in range(1, 11)]
        assert len({(answer.headers["Nimbus-Node"], answer.headers["Nimbus-Instance"]) for answer in given}) == 1
        owners.add(given[0].headers["Nimbus-Node"])
        assert all(answer.headers["Nimbus-Request-Id"] == answer.json["request_id"] for answer in given)
    assert len(owners) > 1, "nine sessions fall to more than one of three nodes"
    assert owners <= {nodes.id_of(node) for node in nodes}


def test_many_callers_at_once_find_one_order(nodes):
    answers = []

    def call(node):
        answers.extend(node.invoke("counter", None, "hot") for _ in range(25))

    threads = [threading.Thread(target=call, args=(node,)) for node in nodes for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status for answer in answers} == {200}, [answer.text for answer in answers if answer.status != 200]
    in_order = sorted(answers, key=lambda answer: int(answer.headers["Nimbus-Session-Seq"]))
    assert [answer.json["body"] for answer in in_order] == list(range(1, 151))
    assert [int(answer.headers["Nimbus-Session-Seq"]) for answer in in_order] == list(range(1, 151))


def test_whatever_concerns_a_session_is_done_by_its_owner(nodes):
    nodes[0].invoke("counter", None, "s")
    owner, others = owner_of(nodes, "s")
    here, there = others
    path = "/functions/counter/sessions/s"
    shown = [node.api("GET", path).json for node in nodes]
    assert {one["node_id"] for one in shown} == {nodes.id_of(owner)}
    assert {one["next_seq"] for one in shown} == {2}
    assert {one["vm_id"] for one in shown} == {shown[0]["vm_id"]}

    put = here.api("PUT", "/functions/counter/state/s/n", "41")
    assert put.status == 200, put.text
    assert put.headers["ETag"] == f'"{put.json["version"]}"'
    assert there.api("PUT", "/functions/counter/state/s/n", "0", If_Match='"1"').status == 412
    assert there.invoke("counter", None, "s").json["body"] == 42
    assert there.api("GET", "/functions/counter/state/s/n").text == "42"
    assert there.api("POST", "/functions/counter/state/s/n/incr", {"delta": 2}).json["value"] == 44

    listed = here.api("GET", "/functions/counter/sessions").json["items"]
    assert [(one["session_key"], one["node_id"], one["next_seq"]) for one in listed] == [("s", nodes.id_of(owner), 6)]  # refused or not, writes have numbers

    assert here.api("POST", path + "/pause").json["status"] == "paused"
    taken = there.invoke("counter", None, "s", mode="async")
    assert taken.status == 202 and taken.json["session_seq"] == 6
    waits = owner.api("GET", path).json
    assert (waits["status"], waits["queue_length"]) == ("paused", 1)
    asked = here.api("GET", f"/invocations/{taken.json['request_id']}").json
    assert asked["status"] == "queued"
    assert there.api("POST", path + "/resume").status == 200
    done = here.api("GET", f"/invocations/{taken.json['request_id']}?wait_ms=10000").json
    assert (done["status"], done["body"]) == ("succeeded", 45)

    here.api("POST", path + "/pause")
    taken = there.invoke("counter", None, "s", mode="async").json["request_id"]
    assert there.api("DELETE", f"/invocations/{taken}").json["status"] == "cancelled"
    here.api("POST", path + "/resume")

    copy = there.api("GET", path + "/export")
    assert copy.status == 200
    assert here.api("DELETE", path).status == 204
    assert [node.api("GET", path).status for node in nodes] == [404] * 3
    assert there.api("POST", "/functions/counter/sessions:import", copy.text).status == 201
    assert here.invoke("counter", None, "s").json["body"] == 46
    assert there.api("POST", "/functions/counter/sessions:pause", {"prefix": ""}).json["changed"] == 1
    assert here.api("GET", path).json["status"] == "paused"
    assert here.api("POST", "/functions/counter/sessions:resume", {"prefix": ""}).json["failed"] == 0
    assert here.api("POST", path + "/drain").status == 200
    assert there.invoke("counter", None, "s").json["code"] == "conflict"


def test_an_idempotency_key_is_one_on_all_nodes(nodes):
    answers = []

    def call(node):
        answers.append(node.api("POST", "/functions/counter/invoke?session_key=once", {"payload": 1},
                                Idempotency_Key="k"))

    threads = [threading.Thread(target=call, args=(node,)) for node in nodes for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status for answer in answers} <= {200, 409}
    again = [node.api("POST", "/functions/counter/invoke?session_key=once", {"payload": 1}, Idempotency_Key="k")
             for node in nodes]
    assert [(answer.status, answer.json["body"], answer.headers["Idempotent-Replayed"]) for answer in again] == [
        (200, 1, "true")] * 3
    other = nodes[1].api("POST", "/functions/counter/invoke?session_key=once", {"payload": 2}, Idempotency_Key="k")
    assert other.status == 422


def test_who_asks_is_known_to_the_owner(nodes):
    made = nodes[0].api("POST", "/keys", {"name": "narrow", "scopes": ["invoke:counter"], "session_prefix": "mine-"})
    key = {"Authorization": "Bearer " + made.json["key"]}
    nodes[0].invoke("counter", None, "mine-1")
    for node in nodes:
        body = json.dumps({"payload": None}).encode()
        assert node.request("POST", "/api/v1/functions/counter/invoke?session_key=mine-1", key, body).status == 200
        assert node.request("POST", "/api/v1/functions/counter/invoke?session_key=other", key, body).status == 403
        assert node.request("GET", "/api/v1/functions/counter/sessions/mine-1", key).status == 403


def test_what_only_nodes_say_is_not_believed_of_others(nodes):
    forged = {"Nimbus-Node-Secret": "x" * 48, "Nimbus-Node-Principal": '{"id":"administrator","scopes":["admin"]}',
              "Nimbus-Node-Request": "forged"}
    path = "/api/v1/functions/counter/invoke?session_key=s"
    assert nodes[0].request("POST", path, forged, b"{}").status == 401
    with_key = {**forged, "Authorization": f"Bearer {nodes[0].key}"}
    for node in nodes:
        answer = node.request("POST", path, with_key, b"{}")
        assert answer.status == 200 and answer.headers["Nimbus-Request-Id"] != "forged"
    for one in nodes[0].api("GET", "/instances").json["items"]:
        connection = http.client.HTTPConnection(*one["peer_address"].split(":"), timeout=10)
        connection.request("POST", path, b"{}", {"Authorization": f"Bearer {nodes[0].key}"})
        assert connection.getresponse().status == 401
        connection.close()


def test_instances_and_ring_tell_who_is_there(nodes):
    for n in range(30):
        nodes[n % 3].invoke("counter", None, f"s{n}")
    ids = [nodes.id_of(node) for node in nodes]
    nodes.wait_for(lambda: sum(one["sessions"] for one in nodes[1].api("GET", "/instances").json["items"]) == 30)
    for node in nodes:
        items = node.api("GET", "/instances").json["items"]
        assert sorted(one["id"] for one in items) == sorted(ids)
        assert {one["status"] for one in items} == {"alive"}
        assert {one["id"]: one["url"] for one in items} == {nodes.id_of(each): each.url for each in nodes}
        assert [one["id"] for one in items if one["self"]] == [nodes.id_of(node)]
        ring = node.api("GET", "/ring?function_id=counter&session_key=new").json
        assert sum(one["share"] for one in ring["items"]) == pytest.approx(1, abs=0.01)
        assert nodes[0].invoke("counter", None, "new").headers["Nimbus-Node"] == ring["proposed"]
        assert "nimbus_cluster_nodes 3" in node.get("/metrics", key=node.key).text


def test_a_node_that_is_killed_is_taken_over_from(nodes):
    for n in range(12):
        assert nodes[n % 3].invoke("counter", None, f"s{n}").json["body"] == 1
    nodes[1].process.kill()
    nodes[1].wait()
    begin = time.monotonic()
    left = [nodes[0], nodes[2]]
    for n in range(12):
        answers = [node.invoke("counter", None, f"s{n}") for node in left]
        assert [answer.json.get("body") for answer in answers] == [2, 3], [answer.text for answer in answers]
    assert time.monotonic() - begin < LEASE_MS / 1000 + 1
    nodes.wait_until_known()


def test_an_owner_that_is_stopped_loses_its_sessions_and_is_not_believed_when_it_goes_on(nodes):
    for n in range(12):
        assert nodes[n % 3].invoke("counter", None, f"s{n}").json["body"] == 1
    stopped = nodes[1]
    own = [f"s{n}" for n in range(12) if owner_of(nodes, f"s{n}")[0] is stopped]
    assert own, "of twelve sessions some are its own"
    nodes.freeze(stopped)
    begin = time.monotonic()
    for session in own:
        answer = nodes[0].invoke("counter", None, session)
        if answer.status != 200:  # it waited for the owner, and nobody can say what became of it
            assert answer.json["code"] == "unavailable" and answer.json["outcome"] == "unknown", answer.text
            nodes.wait_for(lambda: nodes[0].invoke("counter", None, session).status == 200)
    assert time.monotonic() - begin < LEASE_MS / 1000 + 3
    before = {session: nodes[2].api("GET", f"/functions/counter/state/{session}/n").json for session in own}
    stopped.send_signal(signal.SIGCONT)
    for session in own:
        # What it has in memory is old: it must ask, or be told.
        answer = stopped.invoke("counter", None, session)
        if answer.status != 200:
            assert answer.json["code"] in ("fenced", "unavailable") and answer.json["outcome"] == "not_applied", answer.text
            answer = stopped.invoke("counter", None, session)
        assert answer.json["body"] == before[session] + 1, answer.text
    nodes.wait_until_known()


def test_an_owner_that_was_stopped_does_not_answer_with_what_was_true_before(nodes):
    nodes[0].deploy("box", "def handle(event, state):\n    if event: state.set('n', event)\n    return state.get('n')\n")
    nodes.wait_for(lambda: all(node.api("GET", "/functions/box").status == 200 for node in nodes))
    sessions = [f"s{n}" for n in range(24)]
    for session in sessions:
        assert nodes[0].invoke("box", 1, session).json["body"] == 1
    stopped = nodes[1]
    own = [session for session in sessions if owner_of(nodes, session, "box")[0] is stopped]
    assert own
    nodes.freeze(stopped)
    for session in own:
        nodes.wait_for(lambda: nodes[0].invoke("box", 2, session).status == 200)
    # They are there when it goes on, before it has heard of anything.
    answers = []
    threads = [threading.Thread(target=lambda s=session: answers.append(stopped.invoke("box", None, s))) for session in own]
    for thread in threads:
        thread.start()
    time.sleep(0.2)  # for them to be sent: it is stopped, and cannot say so
    stopped.send_signal(signal.SIGCONT)
    for thread in threads:
        thread.join()
    for answer in answers:
        if answer.status == 200:
            assert answer.json["body"] == 2, "it was answered before that this is so"
        else:
            assert answer.json["code"] in ("fenced", "unavailable"), answer.text
    for session in own:
        assert stopped.invoke("box", None, session).json["body"] == 2


def test_a_node_that_is_told_to_stop_fails_no_call(nodes):
    stop = threading.Event()
    failures, counts = [], collections.Counter()

    def call(node, n):
        while not stop.is_set():
            session = f"s{n}"
            answer = node.invoke("counter", None, session)
            if answer.status != 200:
                failures.append(answer.text)
            counts[session] += 1

    threads = [threading.Thread(target=call, args=(nodes[0 if n % 2 else 2], n)) for n in range(8)]
    for thread in threads:
        thread.start()
    nodes.wait_for(lambda: sum(counts.values()) > 100)
    code, seconds = nodes[1].stop()
    enough = sum(counts.values()) + 100
    nodes.wait_for(lambda: sum(counts.values()) > enough)
    stop.set()
    for thread in threads:
        thread.join()
    assert code == 0 and seconds < 5
    assert failures == []
    for session, count in counts.items():
        assert nodes[0].api("GET", f"/functions/counter/state/{session}/n").json == count


def test_a_call_that_runs_is_waited_for_when_its_node_stops(nodes):
    nodes[0].deploy("slow", SLOW)
    nodes.wait_for(lambda: all(node.api("GET", "/functions/slow").status == 200 for node in nodes))
    sessions = [f"s{n}" for n in range(6)]
    for session in sessions:
        nodes[0].invoke("slow", {"seconds": 0}, session)
    leaving = nodes[1]
    own = [session for session in sessions if owner_of(nodes, session, "slow")[0] is leaving]
    answers = []
    threads = [threading.Thread(target=lambda s=session: answers.append(nodes[0].invoke("slow", {"seconds": 1}, s)))
               for session in own for _ in range(2)]
    for thread in threads:
        thread.start()
    nodes.wait_for(lambda: all(leaving.api("GET", f"/functions/slow/sessions/{session}").json["status"] == "running"
                               for session in own))
    assert leaving.stop()[0] == 0
    for thread in threads:
        thread.join()
    assert [answer.status for answer in answers] == [200] * len(answers), [answer.text for answer in answers]
    assert sorted(answer.json["body"] for answer in answers) == sorted([2, 3] * len(own))


def test_a_node_that_comes_is_given_sessions_that_rest(nodes):
    for n in range(30):
        nodes[n % 3].invoke("counter", None, f"s{n}")
    fourth = nodes.add()
    name = nodes.id_of(fourth)

    def given():
        items = fourth.api("GET", "/functions/counter/sessions?limit=100").json["items"]
        proposed = sum(fourth.api("GET", f"/ring?function_id=counter&session_key=s{n}").json["proposed"] == name
                       for n in range(30))
        return proposed > 0 and sum(one["node_id"] == name for one in items) == proposed

    nodes.wait_for(given)
    for n in range(30):
        answer = nodes[n % 4].invoke("counter", None, f"s{n}")
        assert (answer.json["body"], answer.headers["Nimbus-Session-Seq"]) == (2, "2"), answer.text


def test_queued_calls_of_a_node_that_is_gone_run_elsewhere_once_and_in_order(nodes):
    nodes[0].deploy("list", "import time\ndef handle(event, state):\n    time.sleep(0.02)\n"
                            "    state.set('all', state.get('all', []) + [event], ttl=-1)\n")
    nodes.wait_for(lambda: all(node.api("GET", "/functions/list").status == 200 for node in nodes))
    taken = collections.defaultdict(list)
    for n in range(120):
        session = f"s{n % 6}"
        answer = nodes[n % 3].invoke("list", n, session, mode="async")
        assert answer.status == 202, answer.text
        taken[session].append((answer.json["session_seq"], n, answer.json["request_id"]))
    nodes[1].process.kill()
    nodes[1].wait()
    for session, calls in taken.items():
        for _, _, request_id in calls:
            done = nodes[0].api("GET", f"/invocations/{request_id}?wait_ms=20000").json
            assert done["status"] == "succeeded", done
        stored = nodes[2].api("GET", f"/functions/list/state/{session}/all").json
        assert stored == [n for _, n, _ in sorted(calls)]


def test_delayed_calls_of_a_node_that_is_gone_run_elsewhere(nodes):
    taken = [nodes[n % 3].invoke("counter", None, f"s{n}", mode="async", delay_ms=1500).json for n in range(9)]
    nodes[2].process.kill()
    nodes[2].wait()
    for one in taken:
        done = nodes[0].api("GET", f"/invocations/{one['request_id']}?wait_ms=15000").json
        assert (done["status"], done["body"]) == ("succeeded", 1)


def test_functions_and_their_versions_are_the_same_everywhere(nodes):
    def everywhere(status, body=None):
        def is_so():
            answers = [node.invoke("moving", None, f"s-{n}") for n, node in enumerate(nodes)]
            return all(answer.status == status and (body is None or answer.json["body"] == body) for answer in answers)
        begin = time.monotonic()
        nodes.wait_for(is_so)
        return time.monotonic() - begin

    nodes[0].deploy("moving", "def handle(event):\n    return 1\n")
    assert everywhere(200, 1) < 2
    nodes[1].deploy("moving", "def handle(event):\n    return 2\n")
    assert everywhere(200, 2) < 2
    assert nodes[2].api("POST", "/functions/moving/rollback", {"version": 1}).status == 200
    assert everywhere(200, 1) < 2
    assert nodes[1].api("DELETE", "/functions/moving").status == 204
    assert everywhere(404) < 2
    assert [node.api("GET", "/functions/moving/sessions/s-0").status for node in nodes] == [404] * 3


def test_what_functions_send_reaches_receivers_on_other_nodes(nodes):
    nodes[0].deploy("sender", "from nimbus import send\ndef handle(event):\n"
                              "    for to in event: send('counter', to)\n")
    nodes.wait_for(lambda: all(node.api("GET", "/functions/sender").status == 200 for node in nodes))
    receivers = [f"r{n}" for n in range(8)]
    for n in range(6):
        answer = nodes[n % 3].invoke("sender", receivers, f"from{n}")
        assert answer.status == 200, answer.text

    def arrived():
        found = [nodes[0].api("GET", f"/functions/counter/state/{to}/n") for to in receivers]
        return [one.status == 200 and one.json for one in found] == [6] * 8

    nodes.wait_for(arrived)


def test_stateless_calls_of_all_nodes_share_the_default_session(nodes):
    nodes[0].deploy("plain", """
def handle(event, state):
    if event == "all":
        state.set_many({"a": [1, 2.50], "b": None})
        return [state.keys("?"), state.get_many(["a", "b", "c"]), state.get_with_version("a")[0], state.exists("c"),
                state.ttl("a") > 0, state.delete("b"), state.get("b", "gone")]
    return state.incr("n")
""")
    nodes.wait_for(lambda: all(node.api("GET", "/functions/plain").status == 200 for node in nodes))
    answers = [nodes[n % 3].invoke("plain") for n in range(30)]
    assert [answer.status for answer in answers] == [200] * 30, [answer.text for answer in answers if answer.status != 200]
    assert [answer.json["body"] for answer in answers] == list(range(1, 31))
    assert len({answer.headers["Nimbus-Node"] for answer in answers}) == 3, "each runs where it was sent"
    for node in nodes:
        assert node.invoke("plain", "all").json["body"] == [["a", "b", "n"], {"a": [1, 2.5], "b": None}, [1, 2.5], False, True, True,
                                                            "gone"]
