"""What an instance says of itself, and what it makes of Load."""

import os
import platform

import pytest

import host


def test_hello_says_what_it_is(functions):
    instance = functions.instance()
    assert instance.hello["protocol"] == 1
    assert instance.hello["language"] == "python"
    assert instance.hello["language_version"] == platform.python_version()
    assert instance.hello["sdk"]
    os.kill(instance.hello["pid"], 0)


@pytest.mark.parametrize("handler", ["shop/cart/main.run", "shop.cart.main.run"])
def test_a_handler_may_be_in_folders(functions, handler):
    instance = functions.load("", {"shop/cart/main": "def run(event): return event"}, handler=handler)
    assert instance.call(5).body == 5


def test_a_handler_may_be_in_a_package(functions):
    files = {"shop/__init__": "from .prices import handle", "shop/prices": "def handle(event): return event * 2"}
    assert functions.load("", files, handler="shop.handle").call(5).body == 10


def test_a_function_imports_its_own_files_first(functions):
    files = {"helper": "value = 1", "decimal": "value = 2", "random": "value = 3"}
    code = "import decimal, helper, random\ndef handle(event): return helper.value, decimal.value, random.value"
    instance = functions.load(code, files)
    assert instance.call().body == [1, 2, 3]


def test_a_file_that_only_looks_like_a_module_hides_none(functions, tmp_path):
    directory = functions.directory("import logging, asyncio\ndef handle(event): return logging is asyncio.log.logging")
    (directory / "logging").mkdir()
    (directory / "asyncio.txt").write_text("")
    instance = functions.instance()
    assert instance.load(directory) == {}
    assert instance.call().body is True


def test_the_directory_is_the_working_directory(functions):
    code = "import os, sys\ndef handle(event): return os.getcwd(), sys.path[0], open('main.py').read(6)"
    instance = functions.load(code)
    directory, first, text = instance.call().body
    assert directory == first and os.path.exists(directory + "/main.py")
    assert text == "import"


def test_the_path_has_site_packages_and_nothing_of_the_sdk(functions):
    instance = functions.load(
        """
        import sys

        def handle(event):
            found = []
            for name in ("host", "conftest", "benchmark", "instance", "zygote"):
                try:
                    __import__(name)
                    found.append(name)
                except ImportError:
                    pass
            return found, any("dist-packages" in entry for entry in sys.path)
        """
    )
    assert instance.call().body == [[], True]


SYNTAX_ERROR = "import os\n\ndef handle(event):\n    return (\n"


def test_a_syntax_error_is_told_with_its_line(functions):
    error = functions.refuse(SYNTAX_ERROR)
    assert (error["type"], error["message"].split(" (")[0]) == ("SyntaxError", "'(' was never closed")
    assert (error["file"], error["line"]) == ("main.py", 4)
    assert "return (" in error["trace"]


def test_a_syntax_error_in_another_file_is_told_with_that_file(functions):
    error = functions.refuse("import lib.helper", {"lib/helper": SYNTAX_ERROR})
    assert (error["type"], error["file"], error["line"]) == ("SyntaxError", "lib/helper.py", 4)


def test_a_syntax_error_in_text_is_told_with_the_line_that_ran_it(functions):
    error = functions.refuse("\n\neval('1 +')")
    assert (error["type"], error["file"], error["line"]) == ("SyntaxError", "main.py", 3)


def test_an_exception_is_told_with_the_innermost_line_of_the_function(functions):
    files = {"helper": "import json\n\ndef read(text):\n    return json.loads(text)\n"}
    error = functions.refuse("import helper\n\nhelper.read('{')\n", files)
    assert error["type"] == "JSONDecodeError"
    assert (error["file"], error["line"]) == ("helper.py", 4)
    assert "main.py" in error["trace"] and "_loading.py" not in error["trace"] and "importlib" not in error["trace"]


def test_a_missing_module_is_told_with_the_line_that_wants_it(functions):
    error = functions.refuse("import os\nimport no_such_module\n")
    assert (error["type"], error["message"]) == ("ModuleNotFoundError", "No module named 'no_such_module'")
    assert (error["file"], error["line"]) == ("main.py", 2)


@pytest.mark.parametrize(
    "statement, name", [("import sys; sys.exit(3)", "SystemExit"), ("raise KeyboardInterrupt", "KeyboardInterrupt")]
)
def test_whatever_is_raised_while_loading_is_told(functions, statement, name):
    error = functions.refuse(statement)
    assert (error["type"], error["file"], error["line"]) == (name, "main.py", 1)


def test_a_missing_file_is_told(functions):
    error = functions.refuse("", handler="shop/cart.handle")
    assert error == {"type": "FileNotFoundError", "message": "there is no file shop/cart.py", "file": "shop/cart.py"}


def test_a_missing_symbol_is_told(functions):
    error = functions.refuse("def handel(event): pass")
    assert error == {"type": "AttributeError", "message": "main.py has no 'handle'", "file": "main.py"}


def test_what_cannot_be_called_is_told(functions):
    error = functions.refuse("handle = 5")
    assert error == {"type": "TypeError", "message": "'handle' in main.py is not callable", "file": "main.py"}


@pytest.mark.parametrize("signature", ["()", "(*, event)", "(event, state, context, more)", "(event, *, more)"])
def test_a_handler_that_cannot_be_called_with_an_event_is_told(functions, signature):
    error = functions.refuse(f"def handle{signature}: pass")
    assert (error["type"], error["file"]) == ("TypeError", "main.py")
    assert "(event, state, context)" in error["message"]


@pytest.mark.parametrize("handler", ["", "main", "main.", ".handle", "..handle", "../main.handle", "/main.handle"])
def test_a_handler_that_names_nothing_is_told(functions, handler):
    error = functions.refuse("def handle(event): pass", handler=handler)
    assert error["type"] in ("ValueError", "AttributeError") and "trace" not in error


def test_a_file_with_the_name_of_a_builtin_module_is_told(functions):
    error = functions.refuse("", {"time": "def handle(event): pass"}, handler="time.handle")
    assert (error["type"], error["file"]) == ("ImportError", "time.py")


def test_a_missing_directory_is_told(functions, tmp_path):
    instance = functions.instance()
    assert instance.load(tmp_path / "none")["error"]["type"] == "FileNotFoundError"


def test_what_is_printed_while_loading_is_logged_before_ready(functions):
    instance = functions.load("print('one'); print('two', end='')\ndef handle(event): pass")
    assert instance.logs == [(0, "stdout", "one\n"), (0, "stdout", "two\n")]


def test_the_environment_is_clean_but_for_what_was_given(functions, monkeypatch):
    monkeypatch.setenv("SECRET", "do not show")
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.setenv("TZ", "UTC")
    zygote = host.Zygote()
    for start in (zygote.start, host.start_directly):
        instance = functions.instance(start)
        directory = functions.directory(
            """
            import os, subprocess, time

            def handle(event):
                lines = subprocess.run(["env"], capture_output=True, text=True).stdout.splitlines()
                shown = dict(line.split("=", 1) for line in lines if not line.startswith("_="))
                return dict(os.environ), shown, time.tzname
            """
        )
        assert instance.load(directory, env={"GREETING": "hällo", "PATH": "/bin", "TZ": "EST5"}) == {}
        own, of_child, zone = instance.call().body
        assert own == of_child
        assert own["GREETING"] == "hällo" and own["PATH"] == "/bin" and own["LC_TIME"] == "C"
        assert zone[0] == "EST"
        kept = {"PATH", "HOME", "LANG", "TZ", "TMPDIR", "GREETING"}
        assert {name for name in own if not name.startswith("LC_")} <= kept
    zygote.close()


def test_an_environment_that_cannot_be_is_told(functions):
    assert functions.refuse("def handle(event): pass", env={"A=B": "c"})["type"] in ("ValueError", "OSError")


HOG = """
    kept = []

    def handle(event):
        if event: kept.append(bytearray(event << 20))
        return len(kept)
"""


def test_a_hog_gets_a_memory_error_and_the_instance_goes_on(functions):
    instance = functions.load(HOG, memory_mb=64)
    assert instance.call(40).body == 1
    result = instance.call(40)
    assert result.error["type"] == "MemoryError"
    assert instance.call(0).body == 1


def test_a_hog_of_small_things_gets_a_memory_error_too(functions):
    instance = functions.load("def handle(event): return len([str(n) for n in range(event)])", memory_mb=32)
    assert instance.call(100_000_000).error["type"] == "MemoryError"
    assert instance.call(1000).body == 1000


@pytest.mark.parametrize("kind", ["", "async "])
def test_a_hog_of_one_large_thing_gets_a_memory_error_too(functions, kind):
    code = f"{kind}def handle(event, state): state.set('a', 1); return len([None] * event)"
    instance = functions.load(code, memory_mb=64)
    for _ in range(3):
        result = instance.call(1 << 30)
        assert result.error["type"] == "MemoryError" and list(result.writes) == ["a"]
        assert instance.call(1000).body == 1000


def test_a_memory_of_0_is_no_limit(functions):
    assert functions.load(HOG, memory_mb=0).call(400).body == 1


def test_threads_have_room_for_their_stacks(functions):
    code = """
        import threading
        barrier = threading.Barrier(8)

        def handle(event):
            barrier.wait(20)
            return len(bytearray(1 << 20))
    """
    instance = functions.load(code, memory_mb=32, concurrency=8)
    requests = [instance.invoke() for _ in range(8)]
    assert [instance.result(request).body for request in requests] == [1 << 20] * 8


def test_an_instance_may_be_started_without_the_zygote(tmp_path):
    instance = host.Instance(host.start_directly)
    host.write_function(tmp_path, "async def handle(event, state): return state.incr('a')")
    assert instance.load(tmp_path) == {}
    assert instance.call().body == 1
    assert instance.hello["pid"] == instance.process.pid
    instance.close()
    assert instance.process.wait() == 0


def test_load_reads_what_it_knows_and_leaves_the_rest(functions, tmp_path):
    host.write_function(tmp_path, "def handle(event, state): return state.incr('a')")
    instance = functions.instance()
    instance.socket.sendall(host.pack(99, 0, b"not even JSON", b"of the future"))
    head = {"handler": "main.handle", "directory": str(tmp_path), "future": {"a": 1}}
    instance.socket.sendall(host.pack(host.LOAD, 0, host.encode(head)))
    assert instance.expect(host.READY).head == {}
    assert instance.call().body == 1
