import select
import shutil
import signal
import socket
import subprocess

import pytest

from harness import PATIENCE, Server

DRAIN_MS = 1000
LIMIT = DRAIN_MS / 1000 + 1.0


@pytest.fixture
def server(tmp_path):
    with Server(tmp_path, "--set", f"server.drain_ms={DRAIN_MS}") as running:
        yield running


def is_closed(connection):
    """Whether the other side ends the connection; waits for that or for data."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_well(server, number):
    server.get("/health")
    code, seconds = server.stop(number)
    assert code == 0
    assert seconds < LIMIT
    assert '"event":"stopped"' in server.log_text()


def test_an_idle_connection_does_not_delay_the_end(server):
    connection = server.connect()
    connection.request("GET", "/health")
    assert connection.getresponse().read()
    code, seconds = server.stop()
    assert code == 0
    assert seconds < LIMIT
    assert is_closed(connection.sock)
    connection.close()


def test_a_client_that_never_finishes_its_request_does_not_hold_it(server):
    with socket.create_connection((server.host, server.port), PATIENCE) as slow:
        slow.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nX-Half: ")
        server.get("/health")  # the slow one's bytes were there before
        code, seconds = server.stop()
        assert code == 0
        assert seconds < LIMIT


def test_a_client_that_never_reads_does_not_hold_it(server):
    with socket.create_connection((server.host, server.port), PATIENCE) as deaf:
        deaf.sendall(b"GET /docs/docs.js HTTP/1.1\r\nHost: x\r\n\r\n" * 400)
        server.get("/health")
        code, seconds = server.stop()
        assert code == 0
        assert seconds < LIMIT


def wait_until_refused(server):
    """Returns when the server accepts nobody any more: it has begun to stop."""
    while True:
        try:
            socket.create_connection((server.host, server.port), PATIENCE).close()
        except OSError:
            return


def fill(connection):
    """Sends requests and reads no answer until the server can neither write nor read on."""
    request = b"GET /docs/docs.js HTTP/1.1\r\nHost: x\r\n\r\n"
    connection.setblocking(False)
    while True:
        try:
            connection.send(request * 1000)
        except BlockingIOError:
            answered, writable, _ = select.select([connection], [connection], [], PATIENCE)
            if not writable:
                # It has begun to answer. If it takes nothing for a whole second, it is stuck.
                _, writable, _ = select.select([], [connection], [], 1.0)
                if answered and not writable:
                    return


def test_a_second_signal_ends_it_at_once(tmp_path):
    with Server(tmp_path, "--set", "server.drain_ms=60000") as server:
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.settimeout(PATIENCE)
            deaf.connect((server.host, server.port))
            fill(deaf)
            server.send_signal(signal.SIGTERM)
            wait_until_refused(server)
            code, seconds = server.stop()
            assert code == 128 + signal.SIGTERM
            assert seconds < 10


def can_trace():
    strace = shutil.which("strace")
    return strace and subprocess.run([strace, "-o", "/dev/null", "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not can_trace(), reason="strace cannot trace here")
def test_a_store_that_does_not_close_does_not_hold_it(tmp_path):
    # Closing one of the store's files takes longer than there is time. -D: the server, not the
    # tracer, is our child. It is over only when the tracer lets go, so the log must say when it ended.
    held = tmp_path / "data" / "nimbus.db-turnstile"
    slow = ["strace", "-D", "-f", "-o", str(tmp_path / "trace"), "-P", str(held),
            "-e", "trace=close", "-e", "inject=close:delay_enter=3s"]
    with Server(tmp_path, "--set", "server.drain_ms=0", prefix=slow) as server:
        code, _ = server.stop()
        assert code == 0
        assert "left behind" in server.log_text()


def test_nobody_is_accepted_after_the_end(server):
    server.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((server.host, server.port), PATIENCE)


def test_the_port_is_free_at_once(tmp_path):
    with Server(tmp_path) as first:
        connection = first.connect()
        connection.request("GET", "/health")
        connection.getresponse().read()
        first.stop()
        with Server(tmp_path, listen=f"127.0.0.1:{first.port}") as second:
            assert second.port == first.port
        connection.close()
