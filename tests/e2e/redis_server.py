"""A real redis-server of its own for a test: on a free port, gone with its `with`."""

import ctypes
import signal
import socket
import subprocess
import time

PATIENCE = 60.0
_libc = ctypes.CDLL(None)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Redis:
    client_arguments = ()

    def __init__(self, directory, *arguments):
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.arguments = arguments
        self.start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def command_line(self):
        return ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.directory),
                "--save", "", "--logfile", "redis.log", *self.arguments]

    def start(self):
        self.process = subprocess.Popen(self.command_line(), preexec_fn=lambda: _libc.prctl(1, signal.SIGKILL))
        deadline = time.monotonic() + PATIENCE
        while not self.ask("PING").startswith(("PONG", "NOAUTH")):
            assert time.monotonic() < deadline, "redis-server does not answer"
            assert self.process.poll() is None, "redis-server ended"
            time.sleep(0.02)

    def ask(self, *command):
        done = subprocess.run(["redis-cli", "-p", str(self.port), *self.client_arguments, *command],
                              capture_output=True, text=True)
        return done.stdout.strip()

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


class EncryptedRedis(Redis):
    """Speaks nothing but TLS, with a certificate that `authority` vouches for."""

    def __init__(self, directory):
        directory.mkdir(parents=True)
        self.authority = directory / "ca.pem"
        openssl = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                   "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
                   "-keyout", directory / "key.pem", "-out", self.authority]
        subprocess.run(openssl, check=True, capture_output=True)
        self.client_arguments = ("--tls", "--cacert", str(self.authority))
        super().__init__(directory, "--tls-cert-file", "ca.pem", "--tls-key-file", "key.pem", "--tls-ca-cert-file",
                         "ca.pem", "--tls-auth-clients", "no")

    def command_line(self):
        words = super().command_line()
        words[words.index("--port")] = "--tls-port"
        return [*words, "--port", "0"]

    @property
    def url(self):
        return f"rediss://127.0.0.1:{self.port}"


class Sentinel(Redis):
    """Watches a primary by the name "primary" and promotes its replica when it is gone."""

    def __init__(self, directory, primary):
        directory.mkdir(parents=True)
        (directory / "sentinel.conf").write_text(
            f"sentinel monitor primary 127.0.0.1 {primary.port} 1\n"
            "sentinel down-after-milliseconds primary 1000\n"
            "sentinel failover-timeout primary 5000\n")
        super().__init__(directory)

    def command_line(self):
        return ["redis-server", str(self.directory / "sentinel.conf"), "--sentinel", "--port", str(self.port),
                "--bind", "127.0.0.1", "--dir", str(self.directory), "--logfile", "redis.log"]


class RedisCluster:
    """Three primaries with all slots between them."""

    NODES = 3

    def __init__(self, directory):
        self.nodes = []
        try:
            for n in range(self.NODES):
                self.nodes.append(Redis(directory / f"node{n}", "--cluster-enabled", "yes", "--cluster-port",
                                        str(free_port()), "--cluster-node-timeout", "2000"))
            self._join()
        except BaseException:
            self.kill()
            raise

    def _join(self):
        first = self.nodes[0]
        for n, node in enumerate(self.nodes):
            node.ask("CLUSTER", "ADDSLOTSRANGE", str(n * 16384 // self.NODES), str((n + 1) * 16384 // self.NODES - 1))
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", str(n + 1))
        for node in self.nodes[1:]:
            bus = next(words[words.index("--cluster-port") + 1] for words in [node.command_line()])
            first.ask("CLUSTER", "MEET", "127.0.0.1", str(node.port), bus)
        deadline = time.monotonic() + PATIENCE
        while not all("cluster_state:ok" in node.ask("CLUSTER", "INFO")
                      and f"cluster_known_nodes:{self.NODES}" in node.ask("CLUSTER", "INFO") for node in self.nodes):
            assert time.monotonic() < deadline, "the cluster does not come up"
            time.sleep(0.02)

    @property
    def url(self):
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def kill(self):
        for node in self.nodes:
            node.kill()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
