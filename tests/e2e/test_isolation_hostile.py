"""Functions that mean harm. What each does is contained, its own call gets a typed error or a refusal, and a neighbour
that is called before, while and after it happens notices nothing."""

import contextlib
import pathlib
import threading
import time

import pytest

from harness import Server

SECRET = "the-secret-of-the-server"

PYTHON = r'''
import ctypes, errno, os, resource, signal, socket, struct, time
import nimbus._call

libc = ctypes.CDLL(None, use_errno=True)

def called(name, *arguments):
    """A function of libc: "done", or the name of what went wrong."""
    if getattr(libc, name)(*arguments) == -1: return errno.errorcode[ctypes.get_errno()]
    return "done"

def number(call): return called("syscall", call, 0, 0, 0, 0, 0)

def tried(deed):
    """What the deed gives, or the name of what went wrong."""
    try:
        return deed()
    except OSError as error:
        return errno.errorcode.get(error.errno, "?")
    except ValueError as error:
        return str(error)

def read(path): return tried(lambda: open(path, "rb").read(100).decode(errors="replace"))

def listed(path): return tried(lambda: os.listdir(path))

def bomb():
    while True:
        try: os.fork()
        except OSError: pass

def grow():
    held = []
    while True: held.append(b"x" * (1 << 20))

def flood():
    while True: os.write(1, b"y" * 4096)

def frame(kind, request, *segments):
    lengths = b"".join(struct.pack("<I", len(one)) for one in segments)
    body = struct.pack("<BBHQ", kind, 0, len(segments), request) + lengths + b"".join(segments)
    return struct.pack("<I", len(body)) + body

def forge(body):
    os.write(3, frame(5, nimbus._call.current().request, b'{"status":200}', body))
    time.sleep(1000)

def close_all():
    os.closerange(0, 256)
    time.sleep(1000)

def nested(depth):
    value = []
    for _ in range(depth): value = [value]
    return value

def fill():
    size = 0
    try:
        with open("/tmp/fill", "wb") as file:
            while size < 1 << 30: size += file.write(b"z" * (1 << 20))
    except OSError as error:
        return [errno.errorcode[error.errno], size >> 20]
    return ["done", size >> 20]

def connect(port, family=socket.AF_INET, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as one:
        one.settimeout(5)
        one.connect(("127.0.0.1", port))
    return "done"

def daemon(mark):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0: os.execv("/usr/bin/sleep", ["sleep", mark])
        os._exit(0)
    os.wait()
    return "done"

def together():
    for _ in range(12):
        if os.fork() == 0:
            held = bytearray(60 << 20)
            for at in range(0, len(held), 4096): held[at] = 1
            while True: time.sleep(1000)
    while True: time.sleep(1000)

def pids(): return [int(one) for one in os.listdir("/proc") if one.isdigit()]

DEEDS = {
    "count": lambda event: None,
    "fork bomb": lambda event: bomb(),
    "memory hog": lambda event: grow(),
    "memory hogs together": lambda event: together(),
    "infinite loop": lambda event: any(iter(int, 1)),
    "stdout flood": lambda event: flood(),
    "forged frame": lambda event: forge(b"{nonsense"),
    "garbage": lambda event: os.write(3, b"\xff" * 1000) and time.sleep(1000),
    "never reads": lambda event: time.sleep(1000),
    "closes descriptors": lambda event: close_all(),
    "kills its parent": lambda event: os.kill(os.getppid(), 9) or time.sleep(1000),
    "kills the first process": lambda event: tried(lambda: os.kill(1, 9)) or "sent",
    "signals all": lambda event: tried(lambda: os.kill(-1, 9)) or "sent",
    "stops itself": lambda event: os.kill(os.getpid(), signal.SIGSTOP),
    "reads /etc/shadow": lambda event: read("/etc/shadow"),
    "reads the administrator's key": lambda event: read(event["data"] + "/admin.key"),
    "reads the store": lambda event: [read(event["data"] + "/nimbus.db"), listed(event["data"])],
    "reads others' code": lambda event: [listed(event["data"] + "/code"), os.listdir("/code"), os.listdir("/native")],
    "climbs out": lambda event: [os.listdir("/code/.."), os.listdir("/code/../../..")],
    "reads the server's environment": lambda event: [dict(os.environ), read("/proc/1/environ"), read("/proc/%d/environ" % os.getppid())],
    "reads others' /proc": lambda event: [pids(), read("/proc/1/maps"), read("/proc/1/mem"), tried(lambda: os.listdir("/proc/1/root"))],
    "ptrace": lambda event: [called("ptrace", 16, 1, 0, 0), called("ptrace", 0, 0, 0, 0)],
    "raw sockets": lambda event: [tried(lambda: connect(9, socket.AF_INET, socket.SOCK_RAW)), tried(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)), tried(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))],
    "connects to the server": lambda event: tried(lambda: connect(event["port"])),
    "mounts": lambda event: [called("mount", b"tmpfs", b"/tmp", b"tmpfs", 0, None), called("umount2", b"/code", 0)],
    "chroot": lambda event: called("chroot", b"/tmp"),
    "unshare": lambda event: [called("unshare", flag) for flag in (0x10000000, 0x20000, 0x20000000, 0x40000000)],
    "joins namespaces": lambda event: called("setns", os.open("/proc/self/ns/mnt", os.O_RDONLY), 0),
    "becomes root": lambda event: [tried(lambda: os.setuid(0)), tried(lambda: os.setgid(0)), tried(lambda: os.setgroups([0]))],
    "the kernel's doors": lambda event: [number(one) for one in (321, 298, 323, 425, 250, 246, 175, 169, 319)],  # bpf, perf_event_open, userfaultfd, io_uring_setup, keyctl, kexec_load, init_module, reboot, memfd_create
    "returns 100 MB": lambda event: "x" * (100 << 20),
    "deep JSON": lambda event: nested(900),
    "forged deep JSON": lambda event: forge(b"[" * 100000 + b"]" * 100000),
    "writes to its code": lambda event: [tried(lambda: open("/code/main.py", "a")), tried(lambda: os.remove("/code/main.py")), tried(lambda: os.mkdir("/code/x")), tried(lambda: os.chmod("/code", 0o777))],
    "writes to the system": lambda event: [tried(lambda: open(path, "w")) for path in ("/usr/bin/x", "/etc/passwd", "/x", "/dev/x", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger")],
    "makes devices": lambda event: tried(lambda: os.mknod("/tmp/mem", 0o600 | 0o020000, os.makedev(1, 1))),
    "fills /tmp": lambda event: fill(),
    "raises its limits": lambda event: [tried(lambda: resource.setrlimit(which, (-1, -1))) for which in (resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_DATA)],
    "leaves a daemon": lambda event: daemon(event["mark"]),
    "leaves a daemon and dies": lambda event: daemon(event["mark"]) and os._exit(7),
}

def handle(event, state):
    n = state.incr("n")
    done = DEEDS[event["deed"]](event)
    return n if event["deed"] == "count" else done
'''

NODE = r'''
const fs = require('fs'), net = require('net'), { spawn, spawnSync } = require('child_process');
const sleep = () => new Promise(() => {});
const tried = (deed) => { try { return deed() ?? 'done'; } catch (error) { return error.code ?? String(error); } };
const read = (path) => tried(() => fs.readFileSync(path, 'latin1').slice(0, 100));
const list = (path) => tried(() => fs.readdirSync(path));
// What Node has no call for, a child does that has it.
const python = (...deeds) => JSON.parse(spawnSync('/usr/bin/python3', ['-c', `
import ctypes, errno, json, os, resource, socket
libc = ctypes.CDLL(None, use_errno=True)
def called(name, *arguments):
    return errno.errorcode[ctypes.get_errno()] if getattr(libc, name)(*arguments) == -1 else "done"
def number(call): return called("syscall", call, 0, 0, 0, 0, 0)
def tried(deed):
    try: return deed()
    except OSError as error: return errno.errorcode.get(error.errno, "?")
    except ValueError as error: return str(error)
print(json.dumps([${deeds.join(', ')}]))`]).stdout);
const nested = (depth) => { let value = []; while (depth-- > 0) value = [value]; return value; };
const frame = (request, body) => {
  const head = Buffer.from('{"status":200}');
  const bytes = Buffer.alloc(24);
  bytes.writeUInt32LE(20 + head.length + body.length, 0);
  bytes[4] = 5; bytes.writeUInt16LE(2, 6); bytes.writeBigUInt64LE(BigInt(request), 8);
  bytes.writeUInt32LE(head.length, 16); bytes.writeUInt32LE(body.length, 20);
  return Buffer.concat([bytes, head, body]);
};
// It does not know its own number, and need not: one of these will be it.
const forge = (body) => { for (let n = 1; n < 2000; ++n) fs.writeSync(3, frame(n, body)); return sleep(); };
const connect = (port) => new Promise((resolve) => {
  const socket = net.connect(port, '127.0.0.1', () => resolve('done'));
  socket.on('error', (error) => resolve(error.code));
});
const fill = () => {
  let size = 0;
  const file = fs.openSync('/tmp/fill', 'w');
  try { while (size < 1 << 30) size += fs.writeSync(file, Buffer.alloc(1 << 20, 1)); } catch (error) { return [error.code, size >> 20]; }
  return ['done', size >> 20];
};
const daemon = (mark) => { spawn('/usr/bin/sleep', [mark], { detached: true, stdio: 'ignore' }).unref(); return 'done'; };

const DEEDS = {
  'count': () => null,
  'fork bomb': () => { spawnSync('/bin/sh', ['-c', 'b() { b | b & }; while :; do b; done']); return sleep(); },
  'memory hog': () => { const held = []; for (;;) held.push(Buffer.alloc(1 << 20, 1)); },
  'memory hogs together': () => { for (let i = 0; i < 12; ++i) spawn('/usr/bin/python3', ['-c', 'import time; held = b"x" * (60 << 20); time.sleep(1000)']); return sleep(); },
  'infinite loop': () => { for (;;); },
  'stdout flood': () => { for (;;) fs.writeSync(1, 'y'.repeat(4096)); },
  'forged frame': () => forge(Buffer.from('{nonsense')),
  'garbage': () => { fs.writeSync(3, Buffer.alloc(1000, 0xff)); return sleep(); },
  'never reads': () => { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); },
  'closes descriptors': () => { for (let one = 0; one < 256; ++one) tried(() => fs.closeSync(one)); return sleep(); },
  'kills its parent': () => { process.kill(process.ppid, 'SIGKILL'); return sleep(); },
  'kills the first process': () => { const told = tried(() => process.kill(1, 'SIGKILL')); return told === true ? 'sent' : told; },
  'signals all': () => { const told = tried(() => process.kill(-1, 'SIGKILL')); return told === true ? 'sent' : told; },
  'stops itself': () => { process.kill(process.pid, 'SIGSTOP'); return sleep(); },
  'reads /etc/shadow': () => read('/etc/shadow'),
  "reads the administrator's key": (event) => read(event.data + '/admin.key'),
  'reads the store': (event) => [read(event.data + '/nimbus.db'), list(event.data)],
  "reads others' code": (event) => [list(event.data + '/code'), list('/code'), list('/native')],
  'climbs out': () => [list('/code/..'), list('/code/../../..')],
  "reads the server's environment": () => [process.env, read('/proc/1/environ'), read(`/proc/${process.ppid}/environ`)],
  "reads others' /proc": () => [list('/proc').filter((one) => /^\d+$/.test(one)).map(Number), read('/proc/1/maps'), read('/proc/1/mem'), list('/proc/1/root')],
  'ptrace': () => python('called("ptrace", 16, 1, 0, 0)', 'called("ptrace", 0, 0, 0, 0)'),
  'raw sockets': () => python(...['AF_INET, socket.SOCK_RAW, 1', 'AF_PACKET, socket.SOCK_RAW', 'AF_NETLINK, socket.SOCK_RAW'].map((one) => `tried(lambda: socket.socket(socket.${one}))`)),
  'connects to the server': (event) => connect(event.port),
  'mounts': () => python('called("mount", b"tmpfs", b"/tmp", b"tmpfs", 0, None)', 'called("umount2", b"/code", 0)'),
  'chroot': () => python('called("chroot", b"/tmp")')[0],
  'unshare': () => python(...[0x10000000, 0x20000, 0x20000000, 0x40000000].map((flag) => `called("unshare", ${flag})`)),
  'joins namespaces': () => python('called("setns", os.open("/proc/self/ns/mnt", os.O_RDONLY), 0)')[0],
  'becomes root': () => [tried(() => process.setuid(0)), tried(() => process.setgid(0)), tried(() => process.setgroups([0]))],
  "the kernel's doors": () => python(...[321, 298, 323, 425, 250, 246, 175, 169, 319].map((one) => `number(${one})`)),
  'returns 100 MB': () => 'x'.repeat(100 << 20),
  'deep JSON': () => nested(900),
  'forged deep JSON': () => forge(Buffer.from('['.repeat(1000) + ']'.repeat(1000))),
  'writes to its code': () => [tried(() => fs.appendFileSync('/code/main.js', ' ')), tried(() => fs.unlinkSync('/code/main.js')), tried(() => fs.mkdirSync('/code/x')), tried(() => fs.chmodSync('/code', 0o777))],
  'writes to the system': () => ['/usr/bin/x', '/etc/passwd', '/x', '/dev/x', '/proc/sys/kernel/hostname', '/proc/sysrq-trigger'].map((path) => tried(() => fs.writeFileSync(path, ''))),
  'makes devices': () => python('tried(lambda: os.mknod("/tmp/mem", 0o600 | 0o020000, os.makedev(1, 1)))')[0],
  'fills /tmp': () => fill(),
  'raises its limits': () => python(...['NPROC', 'NOFILE', 'CORE', 'DATA'].map((one) => `tried(lambda: resource.setrlimit(resource.RLIMIT_${one}, (-1, -1)))`)),
  'leaves a daemon': (event) => daemon(event.mark),
  'leaves a daemon and dies': (event) => { daemon(event.mark); process.exit(7); },
};

exports.handle = async (event, state) => {
  const n = await state.incr('n');
  const done = await DEEDS[event.deed](event);
  return event.deed === 'count' ? n : done;
};
'''

CODE = {"python": PYTHON, "node": NODE}

FINE = (200, None)
RAISED = (500, "function_error")
CRASHED = (502, "function_crashed")
LATE = (504, "timeout")

REFUSED = {"EPERM", "EACCES", "ENOENT", "EROFS", "EAFNOSUPPORT", "ENOSYS", "EINVAL", "ENXIO"}


def refused(body):
    """Every one of the attempts was."""
    return all(refused(one) for one in body) if isinstance(body, list) else body in REFUSED or "not allowed" in body


def nothing_of_the_host(body):
    return set(body[0]) == set(body[1]) and not {"home", "root", "var", "boot", "sys"} & set(body[0])


# What is done; how the call may end; what is to be seen in its answer.
DEEDS = {
    "fork bomb": ({LATE, CRASHED}, None),
    "memory hog": ({RAISED, CRASHED}, None),
    "memory hogs together": ({RAISED, CRASHED}, None),
    "infinite loop": ({LATE}, None),
    "stdout flood": ({LATE}, None),
    "forged frame": ({CRASHED}, None),
    "garbage": ({CRASHED}, None),
    "never reads": ({LATE}, None),
    "closes descriptors": ({CRASHED}, None),
    "kills its parent": ({CRASHED}, None),
    "kills the first process": ({FINE}, lambda body: body in ("sent", "EPERM")),
    "signals all": ({FINE}, lambda body: body in ("sent", "EPERM", "ESRCH")),
    "stops itself": ({LATE}, None),
    "reads /etc/shadow": ({FINE}, refused),
    "reads the administrator's key": ({FINE}, refused),
    "reads the store": ({FINE}, lambda body: refused(body[0]) and body[1] == "ENOENT"),
    "reads others' code": ({FINE}, lambda body: body[0] == "ENOENT" and len(body[1]) == 1 and body[2] == []),
    "climbs out": ({FINE}, nothing_of_the_host),
    "reads the server's environment": ({FINE}, lambda body: SECRET not in str(body) and refused(body[1:])),
    "reads others' /proc": ({FINE}, lambda body: 1 not in body[0] and len(body[0]) <= 2 and refused(body[1:])),
    "ptrace": ({FINE}, refused),
    "raw sockets": ({FINE}, refused),
    "connects to the server": ({FINE}, lambda body: body == "ENETUNREACH"),
    "mounts": ({FINE}, refused),
    "chroot": ({FINE}, refused),
    "unshare": ({FINE}, refused),
    "joins namespaces": ({FINE}, refused),
    "becomes root": ({FINE}, refused),
    "the kernel's doors": ({FINE}, refused),
    "returns 100 MB": ({RAISED, CRASHED}, None),
    "deep JSON": ({RAISED, CRASHED}, None),
    "forged deep JSON": ({CRASHED}, None),
    "writes to its code": ({FINE}, refused),
    "writes to the system": ({FINE}, refused),
    "makes devices": ({FINE}, refused),
    "fills /tmp": ({FINE}, lambda body: body[0] == "ENOSPC" and body[1] <= 64),
    "raises its limits": ({FINE}, refused),
    "leaves a daemon": ({FINE}, lambda body: body == "done"),
    "leaves a daemon and dies": ({CRASHED}, None),
}

# Of these the plain process is no protection.
WITHOUT_SANDBOX = {
    "memory hog", "infinite loop", "stdout flood", "forged frame", "garbage", "never reads", "closes descriptors",
    "stops itself", "returns 100 MB", "deep JSON", "forged deep JSON", "leaves a daemon",
}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("hostile"), env={"SECRET_OF_THE_SERVER": SECRET}) as server:
        for runtime, code in CODE.items():
            # The forks of a bomb live on until its time is up: let that be soon.
            made = server.deploy(f"hostile-{runtime}", code, runtime=runtime, concurrency=1, max_instances=2)
            server.sandboxed = made["isolation"] == "sandbox"
        server.deploy("neighbour", "def handle(event, state):\n    return state.incr('n')\n")
        yield server


@contextlib.contextmanager
def neighbour(server, session):
    """Called all the time; each call is answered, in order."""
    stop = threading.Event()
    strange = []
    count = [0]

    def call():
        while not stop.is_set() and not strange:
            answer = server.invoke("neighbour", None, session=session)
            count[0] += 1
            if (answer.status, answer.json.get("body")) != (200, count[0]):
                strange.append((count[0], answer.text))

    thread = threading.Thread(target=call)
    thread.start()
    try:
        wait_for(lambda: strange or count[0] >= 2)
        yield
        before = count[0]
        wait_for(lambda: strange or count[0] > before)
    finally:
        stop.set()
        thread.join()
    assert not strange


def wait_for(is_so, patience=60):
    deadline = time.monotonic() + patience
    while not is_so():
        assert time.monotonic() < deadline, "it does not go on"
        time.sleep(0.005)


def running(mark):
    """Processes of this host whose command line has the mark."""
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if mark.encode() in path.read_bytes():
                yield path


def event_of(server, runtime, deed):
    event = {"deed": deed, "data": str(server.data.resolve()), "port": server.port, "mark": f"9{abs(hash((runtime, deed))) % 10**8:08}"}
    if deed == "never reads":
        event["fill"] = "x" * 900_000
    return event


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("runtime", CODE)
def test_it_is_contained(hostile, runtime, deed):
    if not hostile.sandboxed and deed not in WITHOUT_SANDBOX:
        pytest.skip("this machine permits no sandbox")
    outcomes, is_harmless = DEEDS[deed]
    function = f"hostile-{runtime}"
    event = event_of(hostile, runtime, deed)
    with neighbour(hostile, f"{runtime} {deed}"):
        assert hostile.invoke(function, {"deed": "count"}, session=deed).json["body"] == 1
        late = {"timeout_ms": 1500} if LATE in outcomes else {}
        answer = hostile.invoke(function, event, session=deed, **late)
        assert (answer.status, answer.json.get("code")) in outcomes, answer.text[:500]
        if is_harmless:
            assert is_harmless(answer.json["body"]), answer.text[:1000]
        # The session goes on, with what was acknowledged.
        kept = 2 if outcomes == {FINE} else 1
        assert hostile.invoke(function, {"deed": "count"}, session=deed).json["body"] == kept + 1
    if deed == "leaves a daemon and dies":
        wait_for(lambda: not list(running(event["mark"])))
    assert hostile.process.poll() is None


@pytest.mark.parametrize("runtime", CODE)
def test_a_daemon_ends_with_its_instance(hostile, runtime):
    event = event_of(hostile, runtime, "left behind")
    hostile.deploy("leaving", CODE[runtime], runtime=runtime)
    event["deed"] = "leaves a daemon"
    assert hostile.invoke("leaving", event).status == 200
    wait_for(lambda: list(running(event["mark"])))
    assert hostile.api("DELETE", "/functions/leaving").status == 204
    wait_for(lambda: not list(running(event["mark"])))
