"""What a function sees of the host, and who decides that."""

import base64
import io
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import threading

import pytest

from harness import Server, nimbus
from test_isolation_hostile import NODE, PYTHON, refused, wait_for

AROUND = r'''
import os, resource, socket, sys
def handle(event):
    if isinstance(event, int):
        with socket.create_connection(("127.0.0.1", event), 5) as one: return one.recv(10).decode()
    return {"descriptors": sorted(int(one) for one in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{one}")),
            "environment": dict(os.environ), "leads": os.getsid(0) == os.getpid() == os.getpgid(0),
            "core": resource.getrlimit(resource.RLIMIT_CORE)[0], "root": os.listdir("/"), "file": __file__,
            "pid": os.getpid(), "user": os.getuid()}
'''

# A program that speaks the protocol, in as few words as can be.
PROGRAM = r'''#!/usr/bin/python3
import json, os, socket, struct
channel = socket.socket(fileno=3)
def send(kind, request, head, *values):
    segments = [json.dumps(head).encode(), *values]
    lengths = b"".join(struct.pack("<I", len(one)) for one in segments)
    body = struct.pack("<BBHQ", kind, 0, len(segments), request) + lengths + b"".join(segments)
    channel.sendall(struct.pack("<I", len(body)) + body)
def receive():
    size, = struct.unpack("<I", channel.recv(4, socket.MSG_WAITALL))
    body = channel.recv(size, socket.MSG_WAITALL)
    return struct.unpack("<BBHQ", body[:12])
send(1, 0, {"protocol": 1, "language": "python", "pid": os.getpid()})
while True:
    kind, _, _, request = receive()
    if kind == 2: send(3, 0, {})
    if kind == 4: send(5, request, {"status": 200}, json.dumps([os.getcwd(), os.listdir("/"), os.getuid()]).encode())
'''

NO_NAMESPACES = ("unshare", "-Ur", "sh", "-c", 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"', "sh")


def archive(path, text, mode):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        entry = tarfile.TarInfo(path)
        entry.mode, entry.size = mode, len(text)
        tar.addfile(entry, io.BytesIO(text.encode()))
    return base64.b64encode(packed.getvalue()).decode()


@pytest.fixture(scope="module")
def sandboxed(server):
    made = server.deploy("around", AROUND)
    if made["isolation"] != "sandbox":
        pytest.skip("this machine permits no sandbox")
    return server


def test_a_function_is_in_a_sandbox_unless_it_says_otherwise(sandboxed):
    seen = sandboxed.invoke("around").json["body"]
    assert seen["file"] == "/code/main.py"
    assert not {"home", "root", "var", "sys"} & set(seen["root"])
    assert seen["environment"]["HOME"] == "/tmp"
    made = sandboxed.deploy("plain", AROUND, isolation="process")
    assert made["isolation"] == "process"
    assert "var" in sandboxed.invoke("plain").json["body"]["root"]


@pytest.mark.parametrize("isolation", ["process", "sandbox"])
def test_a_process_has_nothing_of_the_servers(tmp_path, isolation):
    with Server(tmp_path, env={"SECRET": "hidden"}) as server:
        answer = server.api("PUT", "/functions/around", {"runtime": "python", "files": {"main.py": AROUND}, "isolation": isolation})
        if answer.status == 422:
            pytest.skip("this machine permits no sandbox")
        seen = server.invoke("around").json["body"]
        assert (seen["descriptors"], seen["leads"], seen["core"]) == ([0, 1, 2, 3], True, 0)
        assert not {"SECRET", "NIMBUS_BIN"} & set(seen["environment"])


def test_instances_have_numbers_of_their_own(sandboxed):
    sandboxed.deploy("twin", AROUND)
    assert sandboxed.invoke("twin").json["body"]["pid"] != sandboxed.invoke("around").json["body"]["pid"]


def test_a_program_runs_in_a_sandbox(sandboxed):
    answer = sandboxed.api("PUT", "/functions/program", {"runtime": "exec", "handler": "bin/run", "archive_base64": archive("bin/run", PROGRAM, 0o755)})
    assert answer.status == 201, answer.text
    directory, root, user = sandboxed.invoke("program").json["body"]
    assert (directory, user) == ("/code", 1000)
    assert "var" not in root


@pytest.mark.skipif(not shutil.which("c++"), reason="no compiler")
def test_a_function_in_cpp_runs_in_a_sandbox(sandboxed):
    code = ('#include <nimbus/function.h>\n#include <filesystem>\n'
            'nimbus::Json handle(const nimbus::Json& event, nimbus::State&) {\n'
            '  return nimbus::Json(std::filesystem::exists(event.asString("")));\n}\n')
    sandboxed.deploy("native", code, runtime="native")
    assert sandboxed.invoke("native", "/native/main.handle").json["body"] is True
    assert sandboxed.invoke("native", "/var").json["body"] is False


def test_links_in_an_archive_lead_nowhere(sandboxed):
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            entry = tarfile.TarInfo("main.py")
            entry.type, entry.linkname = kind, "/etc/shadow"
            tar.addfile(entry)
        body = {"runtime": "python", "archive_base64": base64.b64encode(packed.getvalue()).decode()}
        assert sandboxed.api("PUT", "/functions/linked", body).status in (400, 422)
    assert sandboxed.api("GET", "/functions/linked").status == 404


def test_a_microvm_is_refused(server):
    answer = server.api("PUT", "/functions/vm", {"runtime": "python", "files": {"main.py": AROUND}, "isolation": "microvm"})
    assert (answer.status, answer.json["code"], answer.json["field"]) == (422, "unprocessable", "isolation")


class Greeter:
    """Says hello to whoever connects."""

    def __enter__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            connection.sendall(b"hello")
            connection.close()

    def __exit__(self, *_):
        self.socket.close()


def test_a_network_is_for_those_that_ask_where_the_operator_allows(sandboxed, tmp_path):
    body = {"runtime": "python", "files": {"main.py": AROUND}, "network": True}
    answer = sandboxed.api("PUT", "/functions/asking", body)
    assert (answer.status, answer.json["field"]) == (422, "network")
    assert "functions.network" in answer.json["detail"]
    with Greeter() as greeter, Server(tmp_path, "--set", "functions.network=true") as server:
        server.deploy("quiet", AROUND)
        server.deploy("asking", AROUND, network=True)
        assert server.invoke("quiet", greeter.port).status == 500
        assert server.invoke("asking", greeter.port).json["body"] == "hello"
        server.deploy("asking-node", NODE, runtime="node", network=True)
        assert server.invoke("asking-node", {"deed": "connects to the server", "port": greeter.port}).json["body"] == "done"


def test_where_there_can_be_no_sandbox_functions_run_as_processes_and_it_is_said(tmp_path):
    with Server(tmp_path, prefix=NO_NAMESPACES) as server:
        said = [line for line in server.log_text().splitlines() if "does not permit a sandbox" in line]
        assert len(said) == 1 and "reason" in said[0]
        assert server.deploy("around", AROUND)["isolation"] == "process"
        assert server.invoke("around").status == 200
        for change in ({"isolation": "sandbox"}, {"isolation": "sandbox", "runtime": "python", "files": {"main.py": AROUND}}):
            answer = server.api("PUT", f"/functions/{'around' if len(change) == 1 else 'wanting'}", change)
            assert (answer.status, answer.json["field"]) == (422, "isolation")
            assert "not possible on this server" in answer.json["detail"]
        assert server.invoke("around").status == 200


def test_an_operator_who_insists_on_a_sandbox_gets_one_or_no_server(tmp_path):
    with pytest.raises(AssertionError, match="functions.isolation is sandbox"):
        Server(tmp_path, "--set", "functions.isolation=sandbox", prefix=NO_NAMESPACES)


def test_an_operator_may_choose_processes(tmp_path):
    with Server(tmp_path, "--set", "functions.isolation=process") as server:
        assert server.deploy("around", AROUND)["isolation"] == "process"
        assert "permit" not in server.log_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become an ordinary user")
def test_an_ordinary_user_has_sandboxes_too(sandboxed, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    # With workers of pytest's there is one folder more above.
    for folder in (tmp_path, *(above for above in tmp_path.parents if above.name.startswith(("pytest-", "popen-")))):
        folder.chmod(0o755)
    os.chown(home, 54321, 54321)
    with Server(home, prefix=("setpriv", "--reuid=54321", "--regid=54321", "--clear-groups")) as server:
        assert server.deploy("py", PYTHON)["isolation"] == "sandbox", server.log_text()
        server.deploy("js", NODE, runtime="node")
        for function in ("py", "js"):
            for deed in ("reads the administrator's key", "mounts", "unshare", "ptrace", "raises its limits", "raw sockets", "writes to its code", "becomes root"):
                body = server.invoke(function, {"deed": deed, "data": str(server.data)}).json["body"]
                assert refused(body), (function, deed, body)
            answer = server.invoke(function, {"deed": "fork bomb"}, timeout_ms=1500)
            assert answer.status in (502, 504), answer.text
            assert server.invoke(function, {"deed": "count"}, session="s").json["body"] == 1


def test_nothing_of_a_cell_outlives_the_server(tmp_path):
    mark = f"9{os.getpid()}0099"

    def left():
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    if mark.encode() in file.read():
                        return True
            except OSError:
                pass
        return False

    with Server(tmp_path) as server:
        server.deploy("leaving", PYTHON)
        assert server.invoke("leaving", {"deed": "leaves a daemon", "mark": mark}).status == 200
        wait_for(left)
        server.send_signal(signal.SIGKILL)
        wait_for(lambda: not left())


def test_a_disk_can_be_taken_away_from_under_a_server(tmp_path):
    """Cells are made of what the host has mounted, and keep nothing of it."""
    image, place = tmp_path / "disk.img", tmp_path / "disk"
    place.mkdir()
    (tmp_path / "data").mkdir()
    subprocess.run(["truncate", "-s", "8M", image], check=True)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    mounted = subprocess.run(["mount", "-o", "loop", image, place], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"loop devices are not permitted here: {mounted.stderr.strip()}")
    try:
        with Server(tmp_path / "data") as server:
            server.deploy("f", "def handle(event): return 1")
            assert server.invoke("f", session="s").json["body"] == 1
            subprocess.run(["umount", place], check=True)
            used = ["losetup", "--list", "--noheadings", "--output", "NAME", "--associated", image]
            wait_for(lambda: not subprocess.run(used, capture_output=True, text=True, check=True).stdout)
    finally:
        subprocess.run(["umount", "-q", place], check=False)
