"""Three nodes under load while nodes are killed, stopped past their lease and resumed, told to stop, and added. The
history checker decides."""

import os
import random
import signal
import time

import pytest

from load import Load, deploy_record
from nodes import STORES, Nodes

LEASE_MS = 1000


class AnyNode:
    """Sends each call to a node at random, of those that can be expected to answer."""

    def __init__(self, nodes, seed):
        self.up = list(nodes)
        self._rng = random.Random(seed)

    def invoke(self, *arguments, **options):
        return self._rng.choice(self.up).invoke(*arguments, **options)


class Faults:
    def __init__(self, nodes, load, any_node, rng):
        self.nodes, self.load, self.any, self.rng = nodes, load, any_node, rng

    def some_calls(self, count=60):
        enough = self.load.acknowledged + count
        self.load.wait_for(lambda: self.load.acknowledged >= enough)

    def victim(self):
        return self.rng.choice(self.any.up)

    def kill(self):
        node = self.victim()
        node.send_signal(signal.SIGKILL)
        self.any.up.remove(node)
        node.wait()
        self.some_calls()
        self.add()

    def stop_and_resume(self):
        node = self.victim()
        self.any.up.remove(node)
        self.nodes.freeze(node)
        time.sleep(LEASE_MS / 1000 * 1.5)  # that it is stopped for so long is the fault
        self.some_calls()
        node.send_signal(signal.SIGCONT)
        self.any.up.append(node)  # at once: it must not be believed because it answers
        self.some_calls()

    def drain(self):
        node = self.victim()
        self.any.up.remove(node)
        assert node.stop()[0] == 0
        self.some_calls()
        self.add()

    def add(self):
        self.any.up.append(self.nodes.add())
        self.some_calls()


@pytest.mark.parametrize("store", STORES)
def test_no_promise_is_broken_by_nodes_that_come_and_go(tmp_path, store, tries):
    seed = int(os.environ.get("NIMBUS_SEED", random.randrange(2**31)))
    print(f"NIMBUS_SEED={seed}")
    rng = random.Random(seed)
    with Nodes(tmp_path, store, lease_ms=LEASE_MS) as nodes:
        deploy_record(nodes[0])
        nodes.wait_for(lambda: all(node.api("GET", "/functions/record").status == 200 for node in nodes))
        any_node = AnyNode(nodes, seed)
        with Load(sessions=tries(20, 200), callers=12, seed=seed, raises=2, dies=1) as load:
            load.server = any_node
            faults = Faults(nodes, load, any_node, rng)
            faults.some_calls()
            for _ in range(tries(1, 10)):
                for deed in rng.sample([faults.kill, faults.stop_and_resume, faults.drain], 3):
                    deed()
            load.server = None
        nodes.wait_until_known()
        load.finish(any_node.up[0])
        shown = {code: count for code, count in load.answers.items()}
        print(shown, f"slowest {load.slowest:.2f} s")
    history = load.save(tmp_path / "history.jsonl")
    assert load.acknowledged > 300, "too little happened to prove anything"
    assert load.wrong() == [], f"NIMBUS_SEED={seed}, {history}"
    # What nobody can answer for is told as such; nothing else is an excuse.
    assert set(load.answers) <= {"ok", "none", "function_error", "function_crashed", "unavailable", "fenced"}, load.answers


def test_a_node_that_is_frozen_with_the_store_keeps_nobody_waiting(tmp_path, tries):
    """Nobody can write then, nor renew a lease: who waits for the frozen one must hear all the same that it is gone."""
    seed = int(os.environ.get("NIMBUS_SEED", random.randrange(2**31)))
    sessions = 20
    with Nodes(tmp_path, "sqlite", lease_ms=LEASE_MS) as nodes:
        deploy_record(nodes[0])
        nodes.wait_for(lambda: all(node.api("GET", "/functions/record").status == 200 for node in nodes))
        any_node = AnyNode(nodes, seed)
        with Load(sessions=sessions, callers=12, seed=seed, raises=0, dies=0) as load:
            load.server = any_node
            for _ in range(tries(1, 5)):
                load.wait_for(lambda: len(load.acknowledged_since(0)) == sessions)
                frozen = any_node.up.pop()
                nodes.freeze_at_its_turn(frozen)
                stopped = time.monotonic()
                load.wait_for(lambda: sum(one["sent"] > stopped for one in load.records) > 100)
                answered = [one for one in load.records if one["sent"] > stopped]
                frozen.send_signal(signal.SIGCONT)
                any_node.up.append(frozen)
                assert max(one["answered"] - one["sent"] for one in answered) < LEASE_MS / 1000 + 5
                begin = time.monotonic()
                load.wait_for(lambda: len(load.acknowledged_since(begin)) == sessions)
            load.server = None
        nodes.wait_until_known()
        load.finish(any_node.up[0])
    assert load.answers["unavailable"] > 0
    assert load.wrong() == [], f"NIMBUS_SEED={seed}, {load.save(tmp_path / 'history.jsonl')}"


@pytest.mark.parametrize("store", STORES)
def test_a_node_that_is_told_to_stop_makes_no_call_fail(tmp_path, store, tries):
    """Of callers of the other nodes; its own were told to go."""
    seed = int(os.environ.get("NIMBUS_SEED", random.randrange(2**31)))
    with Nodes(tmp_path, store, lease_ms=LEASE_MS) as nodes:
        deploy_record(nodes[0])
        nodes.wait_for(lambda: all(node.api("GET", "/functions/record").status == 200 for node in nodes))
        any_node = AnyNode(nodes, seed)
        with Load(sessions=20, callers=8, seed=seed, raises=0, dies=0) as load:
            load.server = any_node
            for _ in range(tries(2, 20)):
                enough = len(load.records) + 100
                load.wait_for(lambda: len(load.records) >= enough)
                leaving = any_node.up.pop(0)
                under_way = time.monotonic()
                # A call that was about to be sent to it may still be.
                load.wait_for(lambda: sum(one["sent"] > under_way for one in load.records) > 16)
                assert leaving.stop()[0] == 0
                any_node.up.append(nodes.add())
            load.server = None
        load.finish(any_node.up[0])
    assert set(load.answers) == {"ok"}, (load.answers, load.excuses)
    assert load.wrong() == [], f"NIMBUS_SEED={seed}, {load.save(tmp_path / 'history.jsonl')}"
