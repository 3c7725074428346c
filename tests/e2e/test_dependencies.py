"""requirements.txt and package.json: what they name is there when the function runs. Nothing here needs a network."""

import base64
import hashlib
import io
import json
import pathlib
import shutil
import tarfile
import threading
import time
import zipfile

import pytest

from harness import PATIENCE, Server

MAIN_PY = "import greeting\n\ndef handle(event):\n    return {'said': greeting.hello(), 'from': greeting.__file__}\n"
MAIN_JS = "const { hello } = require('greeting');\nexports.handle = async () => ({ said: hello(), from: require.resolve('greeting') });\n"


def write_wheel(folder, name, version, code):
    """A wheel is a zip file with a list of what is in it."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": code,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},sha256={digest(text)},{len(text)}\n" for path, text in files.items())
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
        wheel.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")


def digest(text):
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def npm_package(code):
    """What `npm pack` makes: a tar.gz with everything in package/."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for path, text in {"package.json": '{"name": "greeting", "version": "1.0.0"}', "index.js": code}.items():
            member = tarfile.TarInfo(f"package/{path}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


def archive_of(files):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return base64.b64encode(packed.getvalue()).decode()


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    write_wheel(folder, "greeting", "1.0.0", "def hello():\n    return 'hello'\n")
    write_wheel(folder, "greeting", "2.0.0", "def hello():\n    return 'good day'\n")
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory, wheels):
    with Server(tmp_path_factory.mktemp("server"), "--set", f"functions.wheels={wheels}") as running:
        yield running


def put(server, function, files, runtime="python", **settings):
    return server.api("PUT", f"/functions/{function}", {"runtime": runtime, "files": files, **settings})


def python_files(requirements, main=MAIN_PY):
    return {"main.py": main, "requirements.txt": requirements}


def dependencies_of(server):
    return server.data / "code" / ".dependencies"


def folders(server):
    return sorted(path.name for path in dependencies_of(server).iterdir() if len(path.name) == 64)


# ---- Python


def test_a_python_package_is_there(server):
    assert put(server, "greets", python_files("# what it says\ngreeting == 1.0.0  # the first\n")).status == 201
    answer = server.invoke("greets", session="a").json["body"]
    assert answer["said"] == "hello"
    assert "/.dependencies/" in answer["from"]
    lines = [line["line"] for line in server.api("GET", "/functions/greets/logs").json["items"]]
    assert "installing requirements.txt" in lines
    assert any("Successfully installed greeting-1.0.0" in line for line in lines)


def test_functions_that_need_the_same_share_it_and_others_do_not(server):
    assert put(server, "one", python_files("greeting==2.0.0\n")).status == 201
    before = folders(server)
    assert put(server, "two", python_files("greeting==2.0.0\n", MAIN_PY + "\n# other code\n")).status == 201
    assert folders(server) == before
    assert server.invoke("one").json["body"] == server.invoke("two").json["body"]
    assert put(server, "none", {"main.py": "def handle(event):\n    import greeting\n"}).status == 201
    assert server.invoke("none").json["error"]["type"] == "ModuleNotFoundError"


def test_a_version_keeps_what_it_was_deployed_with(server):
    assert put(server, "moves", python_files("greeting==1.0.0\n")).json["version"] == 1
    assert put(server, "moves", python_files("greeting==2.0.0\n")).json["version"] == 2
    assert server.invoke("moves").json["body"]["said"] == "good day"
    assert server.api("POST", "/functions/moves/rollback", {"version": 1}).status == 200
    assert server.invoke("moves").json["body"]["said"] == "hello"


def test_many_deployments_at_once_install_once(server):
    answers = []
    files = python_files("greeting >= 1\n")
    threads = [threading.Thread(target=lambda n=n: answers.append(put(server, f"crowd{n}", files))) for n in range(6)]
    before = len(folders(server))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer.status for answer in answers] == [201] * 6
    assert len(folders(server)) == before + 1
    assert {server.invoke(f"crowd{n}").json["body"]["said"] for n in range(6)} == {"good day"}


def test_what_cannot_be_had_is_refused_with_pips_words(server):
    answer = put(server, "wants", python_files("no-such-package==1\n"))
    assert answer.status == 422 and answer.json["code"] == "unprocessable"
    assert "no-such-package" in answer.json["detail"] and answer.json["file"] == "requirements.txt"
    assert "No matching distribution" in answer.json["trace"]
    assert server.api("GET", "/functions/wants").status == 404


@pytest.mark.parametrize(
    "line",
    ["--index-url https://example.org", "-r /etc/passwd", "./local", "/etc/passwd", "greeting @ file:///tmp/x",
     "greeting --global-option=x", "https://example.org/x.whl", "${HOME}", "greeting \\\n  -e ."],
)  # fmt: skip
def test_lines_that_are_no_packages_are_refused(server, line):
    answer = put(server, "sly", python_files(f"greeting==1.0.0\n{line}\n"))
    assert answer.status == 422, answer.text
    assert "requirements.txt: line" in answer.json["detail"]


def test_a_requirements_file_that_names_nothing_installs_nothing(server):
    before = folders(server)
    assert put(server, "plain", {"main.py": "def handle(event): return 1\n", "requirements.txt": "# none\n\n"}).status == 201
    assert folders(server) == before


def test_a_time_limit(tmp_path, wheels):
    with Server(tmp_path, "--set", f"functions.wheels={wheels}", "--set", "functions.install_timeout_ms=1") as server:
        answer = put(server, "late", python_files("greeting\n"))
        assert answer.status == 422 and "took more than 1 ms" in answer.json["detail"]


def test_a_restart_finds_it_and_installs_again_what_is_lost(tmp_path, wheels):
    settings = ["--set", f"functions.wheels={wheels}"]
    with Server(tmp_path, *settings) as server:
        assert put(server, "greets", python_files("greeting==1.0.0\n")).status == 201
        server.stop()
    shutil.rmtree(dependencies_of(server))
    with Server(tmp_path, *settings) as server:
        assert server.invoke("greets").json["body"]["said"] == "hello"


def test_what_no_kept_version_needs_is_removed(tmp_path, wheels):
    settings = ["--set", f"functions.wheels={wheels}", "--set", "functions.unused_dependencies_s=0"]
    with Server(tmp_path, *settings) as server:
        put(server, "old", python_files("greeting==1.0.0\n"))
        put(server, "kept", python_files("greeting==2.0.0\n"))
        put(server, "kept", {"main.py": "def handle(event): return 1\n"})
        assert len(folders(server)) == 2  # both are needed: one by an older version, which may come back
        assert server.api("DELETE", "/functions/old").status == 204
        assert len(folders(server)) == 1
        assert server.api("POST", "/functions/kept/rollback", {"version": 1}).status == 200
        assert server.invoke("kept").json["body"]["said"] == "good day"


def test_other_users_may_read_what_is_installed(server):
    assert put(server, "readable", python_files("greeting==1.0.0\n")).status == 201
    for path in dependencies_of(server).glob("*/greeting.py"):
        assert path.stat().st_mode & 0o044 == 0o044 and path.parent.stat().st_mode & 0o055 == 0o055


# ---- Node


def deploy_node(server, function, package, more, **files):
    content = {"main.js": MAIN_JS, "package.json": json.dumps(package), **more, **files}
    return server.api("PUT", f"/functions/{function}", {"runtime": "node", "archive_base64": archive_of(content)})


def test_a_node_package_from_a_tarball_or_a_folder_of_the_code(server):
    tarball = npm_package("exports.hello = () => 'hello';\n")
    of_tarball = deploy_node(server, "tarball", {"dependencies": {"greeting": "file:greeting.tgz"}}, {"greeting.tgz": tarball})
    if not shutil.which("npm"):
        assert of_tarball.status == 422 and "install npm" in of_tarball.json["detail"]
        return
    assert of_tarball.status == 201, of_tarball.text
    answer = server.invoke("tarball", session="a").json["body"]
    assert answer["said"] == "hello" and "/.dependencies/" in answer["from"]

    folder = {"lib/greeting/package.json": '{"name": "greeting", "version": "1.0.0"}',
              "lib/greeting/index.js": "exports.hello = () => 'good day';\n"}
    package = {"dependencies": {"greeting": "file:lib/greeting"}, "devDependencies": {"no-such-package": "1.0.0"}}
    assert deploy_node(server, "folder", package, folder).status == 201
    assert server.invoke("folder").json["body"]["said"] == "good day"
    # The same package.json with another package beside it is something else.
    folder["lib/greeting/index.js"] = "exports.hello = () => 'hi';\n"
    assert deploy_node(server, "folder", package, folder).status == 200
    assert server.invoke("folder").json["body"]["said"] == "hi"


def test_a_server_without_npm_says_what_to_install(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "node").symlink_to(shutil.which("node"))
    with Server(tmp_path, env={"PATH": str(tmp_path / "bin")}) as server:
        answer = deploy_node(server, "wants", {"dependencies": {"greeting": "1.0.0"}}, {})
        assert answer.status == 422 and "install npm" in answer.json["detail"], answer.text


def false_npm(folder, script):
    """A folder for PATH where npm is this."""
    folder.mkdir(exist_ok=True)
    if not (folder / "node").exists():
        (folder / "node").symlink_to(shutil.which("node"))
    (folder / "npm").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "npm").chmod(0o755)
    return {"PATH": str(folder)}


def test_an_installer_that_dies_or_says_too_much_is_no_harm_to_the_server(tmp_path):
    endings = [("kill -9 $$", "killed by signal 9"), ("exit 3", "exited with 3"),
               ("/usr/bin/yes noise | /usr/bin/head -c 9000000; exit 1", "noise")]
    for script, words in endings:
        with Server(tmp_path, env=false_npm(tmp_path / "path", script)) as server:
            answer = deploy_node(server, "f", {"dependencies": {"x": "1"}}, {})
            assert answer.status == 422 and words in answer.json["detail"], answer.json["detail"]
            assert len(answer.body) < 200_000
            assert folders(server) == [] and not any(dependencies_of(server).glob("*"))  # nor is a draft left


SLOW = "echo $$ > {note}.new; /bin/mv {note}.new {note}; exec /bin/sleep 1000"


def assert_ended(note):
    process = pathlib.Path("/proc", note.read_text().strip())
    deadline = time.monotonic() + PATIENCE
    while process.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_installer_that_takes_too_long_is_ended(tmp_path):
    note = tmp_path / "installing"
    env = false_npm(tmp_path / "path", SLOW.format(note=note))
    with Server(tmp_path, "--set", "functions.install_timeout_ms=2000", env=env) as server:
        answer = deploy_node(server, "f", {"dependencies": {"x": "1"}}, {})
        assert answer.status == 422 and "took more than 2000 ms" in answer.json["detail"]
        assert_ended(note)


def test_a_server_that_is_told_to_stop_does_not_wait_for_the_installer(tmp_path):
    note = tmp_path / "installing"
    env = false_npm(tmp_path / "path", SLOW.format(note=note))
    with Server(tmp_path, "--set", "server.drain_ms=300", env=env) as server:
        connection = server.connect()
        body = json.dumps({"runtime": "node", "files": {"main.js": MAIN_JS, "package.json": '{"dependencies": {"x": "1"}}'}})
        connection.request("PUT", "/api/v1/functions/slow", body, {"Authorization": f"Bearer {server.key}"})
        deadline = time.monotonic() + PATIENCE
        while not note.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        code, seconds = server.stop()
        assert code == 0 and seconds < 5
        connection.close()
        assert_ended(note)


def test_node_modules_that_come_along_are_used_as_they_are(server):
    files = {"node_modules/greeting/index.js": "exports.hello = () => 'brought';\n"}
    assert deploy_node(server, "brings", {"dependencies": {"greeting": "1.0.0"}}, files).status == 201
    assert server.invoke("brings").json["body"]["said"] == "brought"


def test_install_scripts_do_not_run(server, tmp_path):
    trace = tmp_path / "trace"
    package = {"dependencies": {"greeting": "file:greeting"}, "scripts": {"postinstall": f"touch {trace}"}}
    theirs = {"name": "greeting", "version": "1.0.0", "scripts": {"postinstall": f"touch {trace}"}}
    files = {"greeting/package.json": json.dumps(theirs), "greeting/index.js": "exports.hello = () => 1;\n"}
    assert deploy_node(server, "scripted", package, files).status in (201, 422)
    assert not trace.exists()


@pytest.mark.parametrize(
    "package",
    [{"dependencies": {"x": "file:../../../admin"}}, {"dependencies": {"x": "file:/etc"}}, {"dependencies": {"x": "link:lib"}},
     {"dependencies": {"x": "~/secrets"}}, {"dependencies": {"y": "1"}, "overrides": {"z": {"x": "file:/etc"}}},
     {"dependencies": {"y": "1"}, "workspaces": ["../*"]}],
)  # fmt: skip
def test_packages_outside_of_the_code_are_refused(server, package):
    answer = deploy_node(server, "sly-node", package, {})
    assert answer.status == 422 and answer.json["file"] == "package.json", answer.text


def test_a_lock_file_that_points_outside_is_refused(server):
    lock = {"lockfileVersion": 3, "packages": {"node_modules/x": {"resolved": "../../secrets", "link": True}}}
    answer = deploy_node(server, "sly-lock", {"dependencies": {"x": "1"}}, {"package-lock.json": json.dumps(lock)})
    assert answer.status == 422 and answer.json["file"] == "package-lock.json", answer.text


def test_a_package_json_without_dependencies_installs_nothing(server):
    before = folders(server)
    files = {"main.js": "export const handle = async () => 1;\n", "package.json": '{"type": "module", "devDependencies": {"x": "1"}}'}
    assert put(server, "module", files, runtime="node").status == 201
    assert server.invoke("module").json["body"] == 1
    assert folders(server) == before
