"""Functions in C++: compiled at deployment, or brought along as programs."""

import base64
import io
import json
import pathlib
import subprocess
import tarfile
import time

import pytest

from harness import PATIENCE, REPOSITORY, Server

COUNTER = """#include <nimbus/function.h>

nimbus::Json handle(const nimbus::Json& event, nimbus::State& state) {
  return nimbus::Json::object({{"visits", state.incr("visits", event["by"].asInt(1))}});
}
"""

# One function for all that needs a running one: compiling takes longer than everything else here.
TROUBLE = """#include <nimbus/function.h>
#include <csignal>
#include <cstdio>

namespace bank {
struct Overdrawn : std::runtime_error {
  using std::runtime_error::runtime_error;
};
}  // namespace bank

nimbus::Json handle(const nimbus::Json& event, nimbus::State& state, const nimbus::Context& context) {
  const std::string what = event.asString("");
  const std::int64_t visits = state.incr("visits");
  if (what == "throw") throw bank::Overdrawn("by 7");
  if (what == "abort") std::abort();
  if (what == "segfault") std::raise(SIGSEGV);
  if (what == "exit") std::exit(0);
  if (what == "hang") for (volatile int i = 0;; i = 1) {}
  if (what == "garbage") static_cast<void>(!::write(3, "this is no frame, but there is much of it: xxxx", 47));
  if (what == "teapot") return nimbus::Json::object({{"status_code", 418}, {"body", "short and stout"}});
  if (what == "log") {
    std::printf("printed\\n");
    nimbus::log::info("logged", {{"visits", visits}});
  }
  if (what == "session") return context.sessionKey() ? nimbus::Json(*context.sessionKey()) : nimbus::Json();
  return visits;
}
"""


def deploy(server, name, code, **settings):
    return server.deploy(name, code, runtime="native", **settings)


def program_of(server, name):
    programs = list((server.data / "code" / name).glob("*.native/main.handle"))
    assert len(programs) == 1
    return programs[0]


@pytest.fixture(scope="module")
def trouble(server):
    deploy(server, "trouble", TROUBLE, timeout_ms=1000)
    return lambda payload=None, **options: server.invoke("trouble", payload, **options)


def test_a_function_in_source_is_compiled_and_keeps_its_state_over_a_restart(tmp_path):
    with Server(tmp_path) as server:
        deployed = deploy(server, "counter", COUNTER)
        assert (deployed["handler"], deployed["concurrency"], deployed["version"]) == ("main.handle", 1, 1)
        answers = [server.invoke("counter", {"by": 2}, session="alice") for _ in range(3)]
        assert [answer.json["body"] for answer in answers] == [{"visits": 2}, {"visits": 4}, {"visits": 6}]
        assert [answer.headers["Nimbus-Session-Seq"] for answer in answers] == ["1", "2", "3"]
        program = program_of(server, "counter")
        built = program.stat().st_mtime_ns
        # The same code once more, with another setting: nothing is compiled.
        assert server.api("PUT", "/functions/counter", {"files": {"main.cpp": COUNTER}, "timeout_ms": 1234}).json["version"] == 1
    with Server(tmp_path) as server:
        assert server.invoke("counter", {}, session="alice").json["body"] == {"visits": 7}
        assert program.stat().st_mtime_ns == built
    program.unlink()  # as on another machine
    with Server(tmp_path) as server:
        assert server.invoke("counter", {}, session="alice").json["body"] == {"visits": 8}
        assert program.stat().st_mtime_ns != built
        assert server.api("DELETE", "/functions/counter").status == 204
        assert not program.exists()


def test_a_handler_may_return_nothing(server):
    files = {"main.cc": "#include <nimbus/function.h>\nvoid nothing(const nimbus::Json&) {}\n"}
    body = {"runtime": "native", "handler": "main.nothing", "files": files}
    assert server.api("PUT", "/functions/nothing", body).status == 201
    answer = server.invoke("nothing", 1)
    assert (answer.status, answer.json["body"]) == (200, None)


def test_code_may_have_several_files(server):
    files = {
        "lib/words.h": "#pragma once\n#include <string>\nnamespace words { std::string greeting(); }\n",
        "lib/words.cpp": '#include "words.h"\nnamespace words { std::string greeting() { return "hello"; } }\n',
        "app/entry.cxx": '#include "lib/words.h"\n#include <nimbus/function.h>\nnamespace app {\n'
                         "static std::string greet(nimbus::Json) { return words::greeting(); }\n}\n",
    }
    answer = server.api("PUT", "/functions/several", {"runtime": "native", "handler": "app/entry.app::greet", "files": files})
    assert answer.status == 201, answer.text
    assert server.invoke("several").json["body"] == "hello"


@pytest.mark.parametrize("code, line, words", [
    ("#include <nimbus/function.h>\n\nnimbus::Json handle(const nimbus::Json& event) {\n  return evnt;\n}\n", 4, "evnt"),
    ('#include "nowhere.h"\n', 1, "nowhere.h"),
    ("#include <nimbus/function.h>\nint other() { return 1; }\n", None, "handle"),
    ("#include <nimbus/function.h>\nint handle(std::string*) { return 1; }\n", None, "a handler takes"),
    ("#include <nimbus/function.h>\nint elsewhere();\nint handle(nimbus::Json) { return elsewhere(); }\n", None, "elsewhere"),
])
def test_code_that_does_not_compile_is_refused_with_the_compilers_words(server, code, line, words):
    answer = server.api("PUT", "/functions/broken", {"runtime": "native", "files": {"main.cpp": code}})
    assert (answer.status, answer.json["code"]) == (422, "unprocessable"), answer.text
    assert words in answer.json["detail"], answer.text
    assert answer.json["detail"].startswith("CompileError: main.cpp:")
    assert answer.json["file"] == "main.cpp"
    assert answer.json.get("line") == line
    assert words in answer.json["trace"]
    assert server.api("GET", "/functions/broken").status == 404


def test_an_error_in_another_file_names_that(server):
    files = {"main.cpp": COUNTER, "more/other.cpp": "int x = ;\n"}
    answer = server.api("PUT", "/functions/broken", {"runtime": "native", "files": files})
    assert (answer.status, answer.json["file"], answer.json["line"]) == (422, "more/other.cpp", 1)


@pytest.mark.parametrize("handler", ["main", "other.handle", "main.handle;evil", "main.handle\"", "main."])
def test_a_handler_that_is_nowhere_is_refused(server, handler):
    answer = server.api("PUT", "/functions/broken", {"runtime": "native", "handler": handler, "files": {"main.cpp": COUNTER}})
    assert answer.status == 422, answer.text
    assert "is no program among the files" in answer.json["detail"]


def test_a_program_that_fails_as_it_starts_is_refused(server):
    code = "#include <nimbus/function.h>\nstatic const int x = [] { std::abort(); return 1; }();\nint handle(nimbus::Json) { return x; }\n"
    answer = server.api("PUT", "/functions/broken", {"runtime": "native", "files": {"main.cpp": code}})
    assert (answer.status, answer.json["code"]) == (422, "unprocessable")
    assert "ended before it began" in answer.json["detail"]


def test_without_a_compiler_it_is_said_what_to_do(tmp_path):
    empty = tmp_path / "path"
    empty.mkdir()
    with Server(tmp_path, env={"PATH": str(empty)}) as server:
        answer = server.api("PUT", "/functions/counter", {"runtime": "native", "files": {"main.cpp": COUNTER}})
        assert answer.status == 422
        assert "install g++ or clang" in answer.json["detail"]
        assert "upload a compiled program" in answer.json["detail"]


def test_a_compiler_that_dies_or_says_too_much_is_no_harm_to_the_server(tmp_path):
    folder = tmp_path / "path"
    folder.mkdir()
    compiler = folder / "c++"
    for script, words in [("kill -9 $$", "killed by signal 9"), ("exit 3", "exited with 3"), ("/usr/bin/yes noise | /usr/bin/head -c 9000000; exit 1", "noise")]:
        compiler.write_text(f"#!/bin/sh\n{script}\n")
        compiler.chmod(0o755)
        with Server(tmp_path, env={"PATH": str(folder)}) as server:
            answer = server.api("PUT", "/functions/counter", {"runtime": "native", "files": {"main.cpp": COUNTER}})
            assert answer.status == 422
            assert words in answer.json["detail"]
            assert len(answer.body) < 200_000


HOSTILE_SOURCE = {
    "reads the host's files": ('#include "/etc/shadow"', "No such file"),
    "reads the server's key": ('#include "{data}/admin.key"', "No such file"),
    "reads its neighbour's code": ('#include "../../neighbour/1/main.cpp"', "No such file"),
    "takes in a file by the assembler": ('__asm__(".incbin \\"{data}/admin.key\\"");', "admin.key"),
    "never ends": ("template <long N> struct T { static constexpr long v = T<N - 1>::v + T<N - 2>::v + T<N * 7 % 1000003>::v; };"
                   " constexpr long endless() { long n = 0; while (true) ++n; return n; } static_assert(T<900>::v + endless());", ""),
    "says too much": ("#define X bad; bad; bad; bad; bad; bad; bad; bad;\n#define Y X X X X X X X X\n#define Z Y Y Y Y Y Y Y Y\nvoid f() { Z Z Z Z Z Z Z Z }", "bad"),
    "makes a huge program": ("__attribute__((used)) char huge[3L << 30] = {1};", ""),
    "takes much memory": ("constexpr int f() { int n = 0; for (;;) { int* p = new int[1 << 20]; n += p[0] = 1; } return n; } static_assert(f());", ""),
    "includes itself": ('#include "main.cpp"', "nested"),
}


def has_sandbox(server):
    return "does not permit a sandbox" not in server.log_text()


@pytest.mark.parametrize("what", HOSTILE_SOURCE)
def test_hostile_source_is_refused_in_bounded_time_and_learns_nothing(server, what):
    if not has_sandbox(server):
        pytest.skip("this machine permits no sandbox")
    deploy(server, "neighbour", COUNTER)
    text, words = HOSTILE_SOURCE[what]
    text = text.replace("{data}", str(server.data))
    begun = time.monotonic()
    answer = server.api("PUT", "/functions/hostile", {"runtime": "native", "files": {"main.cpp": text + "\n" + COUNTER}})
    assert time.monotonic() - begun < 90
    assert (answer.status, answer.json["code"]) == (422, "unprocessable"), answer.text
    assert words in answer.text and "root:" not in answer.text and server.key not in answer.text
    assert len(answer.body) < 200_000
    assert server.invoke("neighbour", {}, session="n").status == 200
    assert server.api("GET", "/functions/hostile").status == 404


def test_a_server_that_is_told_to_stop_does_not_wait_for_the_compiler(tmp_path):
    folder = tmp_path / "path"
    folder.mkdir()
    note = tmp_path / "compiling"
    compiler = folder / "c++"
    compiler.write_text(f"#!/bin/sh\necho $$ > {note}.new; /bin/mv {note}.new {note}; exec /bin/sleep 1000\n")
    compiler.chmod(0o755)
    with Server(tmp_path, "--set", "server.drain_ms=300", env={"PATH": str(folder)}) as server:
        connection = server.connect()
        body = json.dumps({"runtime": "native", "files": {"main.cpp": COUNTER}})
        connection.request("PUT", "/api/v1/functions/slow", body, {"Authorization": f"Bearer {server.key}"})
        deadline = time.monotonic() + PATIENCE
        while not note.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        code, seconds = server.stop()
        assert code == 0
        assert seconds < 5
        connection.close()
        compiling = int(note.read_text())
        while pathlib.Path(f"/proc/{compiling}").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_what_is_thrown_is_told_and_leaves_no_trace(trouble):
    assert trouble(session="throw").json["body"] == 1
    failed = trouble("throw", session="throw")
    assert (failed.status, failed.json["code"]) == (500, "function_error")
    assert (failed.json["error"]["type"], failed.json["error"]["message"]) == ("bank::Overdrawn", "by 7")
    assert trouble(session="throw").json["body"] == 2


@pytest.mark.parametrize("how", ["abort", "segfault", "exit", "garbage"])
def test_a_crash_is_502_and_the_session_goes_on(trouble, how):
    assert trouble(session=how).json["body"] == 1
    crashed = trouble(how, session=how)
    assert (crashed.status, crashed.json["code"]) == (502, "function_crashed")
    assert trouble(session=how).json["body"] == 2


def test_a_hang_is_504_and_the_session_goes_on(trouble):
    assert trouble(session="hang").json["body"] == 1
    late = trouble("hang", session="hang")
    assert (late.status, late.json["code"]) == (504, "timeout")
    assert trouble(session="hang").json["body"] == 2


def test_a_function_chooses_its_status(trouble):
    answer = trouble("teapot")
    assert (answer.status, answer.json["body"]) == (418, "short and stout")


def test_a_call_without_a_session_has_none(trouble):
    assert trouble("session").json["body"] is None
    assert trouble("session", session="ä b").json["body"] == "ä b"


def test_what_it_prints_and_logs_is_its_log(server, trouble):
    answer = trouble("log", session="log")
    mine = [one for one in server.api("GET", "/functions/trouble/logs").json["items"] if one["request_id"] == answer.json["request_id"]]
    assert {one["line"] for one in mine} == {"printed", "INFO logged visits=1"}


def test_a_program_that_was_compiled_elsewhere_is_run(server, tmp_path):
    source = tmp_path / "counter.cpp"
    source.write_text(COUNTER + "NIMBUS_FUNCTION(handle);\n")
    program = tmp_path / "counter"
    subprocess.run(["g++", "-std=c++20", "-I", REPOSITORY / "sdk/cpp/include", source, "-o", program, "-pthread"], check=True)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.add(program, "bin/counter")
    body = {"runtime": "native", "handler": "bin/counter", "archive_base64": base64.b64encode(packed.getvalue()).decode()}
    answer = server.api("PUT", "/functions/brought", body)
    assert answer.status == 201, answer.text
    assert [server.invoke("brought", {}, session="a").json["body"]["visits"] for _ in range(2)] == [1, 2]
    assert not list((server.data / "code/brought").glob("*.native"))


def test_the_example_counts(server):
    code = (REPOSITORY / "examples/native-counter/main.cpp").read_text()
    deploy(server, "example", code)
    assert [server.invoke("example", {"name": "Ann"}, session="a").json["body"]["visits"] for _ in range(2)] == [1, 2]
