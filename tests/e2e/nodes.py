"""Several servers on one store: SQLite in one data directory, a Redis, a Redis Cluster.

    with Nodes(tmp_path, "redis", count=3) as nodes:
        nodes[0].invoke(...)
        nodes.add()
"""

import contextlib
import signal
import time

from harness import PATIENCE, Server
from redis_server import Redis, RedisCluster

STORES = ["sqlite", "redis", "redis-cluster"]
# Short, so that tests of what happens when it ends are; long enough for a busy machine.
LEASE_MS = 2000


class Node(Server):
    first = None

    @property
    def key(self):
        """The first has made it, and all accept it."""
        return super().key if self.first in (None, self) else self.first.key


class Nodes:
    def __init__(self, directory, store, count=3, lease_ms=LEASE_MS, arguments=()):
        self.directory = directory
        self.store = store
        self.arguments = ["--set", f"cluster.lease_ms={lease_ms}", "--set", "cluster.ownership=on", *arguments]
        self.servers = []
        self._made = 0
        self._stack = contextlib.ExitStack()
        if store == "redis":
            self.redis = self._stack.enter_context(Redis(directory / "redis"))
        elif store == "redis-cluster":
            self.redis = self._stack.enter_context(RedisCluster(directory / "redis"))
        try:
            for _ in range(count):
                self.add()
            self.wait_until_known()
        except BaseException:
            self._stack.close()
            raise

    def freeze(self, node):
        """Stops it at a moment when it does not have the store to itself, as it has SQLite while it writes."""
        self._stop_when(node, lambda others_can_write: others_can_write)

    def freeze_at_its_turn(self, node):
        """Stops it at a moment when it has SQLite to itself. It must be given something to write."""
        self._stop_when(node, lambda others_can_write: not others_can_write)

    def _stop_when(self, node, is_right):
        witness = next(one for one in self.alive() if one is not node)
        function = witness.api("GET", "/functions").json["items"][0]["id"]
        for _ in range(100):
            node.send_signal(signal.SIGSTOP)
            if is_right(witness.api("PUT", f"/functions/{function}/function-state/frozen", "1").status in (200, 201)):
                return
            node.send_signal(signal.SIGCONT)
        raise AssertionError("it was never stopped at the right moment")

    def add(self, *arguments):
        """One node more; with SQLite all share one data directory."""
        home = self.directory if self.store == "sqlite" else self.directory / f"home{self._made}"
        home.mkdir(exist_ok=True)
        self._made += 1
        store = [] if self.store == "sqlite" else ["--store", self.redis.url]
        server = self._stack.enter_context(Node(home, *store, *self.arguments, *arguments))
        self.servers.append(server)
        server.first = self.servers[0]
        return server

    def wait_until_known(self):
        """Until every node knows all that are alive."""
        ids = {self.id_of(server) for server in self.alive()}
        self.wait_for(lambda: all({one["id"] for one in server.api("GET", "/instances").json["items"]} == ids
                                  for server in self.alive()))

    def alive(self):
        return [server for server in self.servers if server.process.poll() is None]

    @staticmethod
    def id_of(server):
        return server.get("/health").json["instanceId"]

    @staticmethod
    def wait_for(is_so, patience=PATIENCE):
        deadline = time.monotonic() + patience
        while not is_so():
            assert time.monotonic() < deadline, "it does not come about"
            time.sleep(0.01)

    def __getitem__(self, n):
        return self.servers[n]

    def __iter__(self):
        return iter(self.servers)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stack.close()
