"""Starts the real binary and talks to it. Only the standard library.

    with Server(tmp_path) as server:
        answer = server.get("/health")

Every server listens on a free port, has a data directory of its own, and is gone when its `with`
ends, however it ends.
"""

import ctypes
import http.client
import json
import os
import pathlib
import select
import signal
import subprocess
import time
import urllib.parse

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("NIMBUS_BIN", str(REPOSITORY / "build" / "nimbus"))

# A sanitized binary on a busy machine is slow; a test that hangs should still end.
PATIENCE = 30.0

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def _die_with_parent():
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def clean_environment(**extra):
    """The environment without settings of whoever runs the tests."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("NIMBUS_")}
    kept.update(extra)
    return kept


def nimbus(*arguments, env=None, timeout=PATIENCE, **options):
    """Runs a command to its end."""
    return subprocess.run(
        [BINARY, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=clean_environment(**(env or {})),
        **options,
    )


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)


class Server:
    def __init__(self, directory, *arguments, env=None, listen="127.0.0.1:0", tls=None, prefix=()):
        self.data = pathlib.Path(directory) / "data"
        self.log_path = pathlib.Path(directory) / "log"
        self.tls = tls
        self.log = open(self.log_path, "ab")
        self.process = subprocess.Popen(
            [*prefix, BINARY, "serve", "--listen", listen, "--data", str(self.data), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=clean_environment(**(env or {})),
            preexec_fn=_die_with_parent,
        )
        self.ready_line = self._first_line()
        prefix = "nimbus ready on "
        if not self.ready_line.startswith(prefix):
            self.close()
            raise AssertionError(f"no ready line: {self.ready_line!r}, log: {self.log_text()}")
        self.url = self.ready_line[len(prefix):].strip()
        self.host, _, port = self.url.split("://")[1].rpartition(":")
        self.host = self.host.strip("[]")
        self.port = int(port)

    def _first_line(self):
        line = b""
        deadline = time.monotonic() + PATIENCE
        out = self.process.stdout.fileno()
        while not line.endswith(b"\n") and time.monotonic() < deadline:
            readable, _, _ = select.select([out], [], [], deadline - time.monotonic())
            byte = os.read(out, 1) if readable else b""
            if not byte:
                break
            line += byte
        return line.decode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        self.process.stdout.close()
        self.log.close()

    def log_text(self):
        return self.log_path.read_text()

    @property
    def key(self):
        return (self.data / "admin.key").read_text().strip()

    def connect(self):
        if self.tls:
            return http.client.HTTPSConnection(
                self.host, self.port, timeout=PATIENCE, context=self.tls
            )
        return http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)

    def request(self, method, path, headers=None, body=None):
        connection = self.connect()
        try:
            connection.request(method, path, body=body, headers=headers or {})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def get(self, path, key=None, **headers):
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        return self.request("GET", path, headers)

    def api(self, method, path, body=None, **headers):
        """A request of the administrator's, below /api/v1. A body that is not text is sent as JSON."""
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        headers["Authorization"] = f"Bearer {self.key}"
        if body is not None and not isinstance(body, (str, bytes)):
            body = json.dumps(body)
        if isinstance(body, str):
            body = body.encode()
        return self.request(method, "/api/v1" + path, headers, body)

    def deploy(self, function, code, runtime="python", **settings):
        """Deploys one file; it must be accepted."""
        name = {"python": "main.py", "node": "main.js", "native": "main.cpp"}[runtime]
        answer = self.api("PUT", f"/functions/{function}", {"runtime": runtime, "files": {name: code}, **settings})
        assert answer.status in (200, 201), answer.text
        return answer.json

    def invoke(self, function, payload=None, session=None, **query):
        if session is not None:
            query["session_key"] = session
        path = f"/functions/{function}/invoke"
        if query:
            path += "?" + urllib.parse.urlencode(query)
        return self.api("POST", path, {"payload": payload})

    def send_signal(self, number):
        self.process.send_signal(number)

    def wait(self, seconds=PATIENCE):
        """The exit code, once it has ended."""
        return self.process.wait(seconds)

    def stop(self, number=signal.SIGTERM):
        """Sends the signal; the exit code and the seconds it took to end."""
        begin = time.monotonic()
        self.send_signal(number)
        return self.wait(), time.monotonic() - begin

    def rest_of_stdout(self):
        return self.process.stdout.read().decode()
