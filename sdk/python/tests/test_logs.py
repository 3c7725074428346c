"""What functions print, and where it arrives."""

import pytest

import host


def lines(result):
    return [(stream, text) for _, stream, text in result.logs]


@pytest.mark.parametrize("kind", ["", "async "])
def test_what_a_call_prints_comes_before_its_result(functions, kind):
    instance = functions.load(
        f"""
        import sys

        {kind}def handle(event):
            print("one", 2)
            print("three", file=sys.stderr)
            sys.stdout.write("four\\nfive\\n")
        """
    )
    result = instance.call()
    assert lines(result) == [("stdout", "one 2\n"), ("stderr", "three\n"), ("stdout", "four\nfive\n")]


def test_a_line_is_sent_when_it_is_whole(functions):
    instance = functions.load(
        """
        import sys

        def handle(event):
            print("a", end="")
            print("b", end="", flush=True)
            print("c\\nd", end="")
            sys.stderr.write("e")
            print("f")
        """
    )
    assert lines(instance.call()) == [("stdout", "abc\n"), ("stdout", "df\n"), ("stderr", "e\n")]


def test_a_line_does_not_wait_for_the_end_of_the_call(functions):
    instance = functions.load("def handle(event, state): print('now'); state.function().get('a')")
    request = instance.invoke()
    line, asking = instance.receive(), instance.receive()
    assert (line.kind, line.request, line.values) == (host.LOG, request, [b"now\n"])
    instance.reply(asking, {"version": 0})
    instance.result(request)


def test_what_has_no_end_of_line_is_sent_at_the_end_of_its_call(functions):
    instance = functions.load("def handle(event): print(event, end='')")
    assert lines(instance.call("one")) == [("stdout", "one\n")]
    assert lines(instance.call("two")) == [("stdout", "two\n")]


def test_it_is_sent_too_where_the_call_fails(functions):
    instance = functions.load("def handle(event): print(event, end=''); raise ValueError")
    assert lines(instance.call("one")) == [("stdout", "one\n")]


def test_a_line_without_an_end_is_sent_in_pieces(functions):
    instance = functions.load(
        """
        def handle(event):
            for _ in range(1000):
                print("x" * 1000, end="")
            print("y" * 3_000_000)
        """
    )
    text = [text for _, text in lines(instance.call())]
    assert "".join(text) == "x" * 1_000_000 + "y" * 3_000_000 + "\n"
    assert max(map(len, text)) <= 1 << 20


def test_text_is_utf_8_whatever_is_printed(functions):
    instance = functions.load(
        """
        import sys

        def handle(event):
            print("ä𝄞 \\ud800")
            sys.stdout.buffer.write(b"\\xff\\xc3\\xa4\\n")
        """
    )
    assert lines(instance.call()) == [("stdout", "ä𝄞 \\ud800\n"), ("stdout", "\\xffä\n")]


def test_the_streams_are_what_libraries_expect(functions):
    instance = functions.load(
        """
        import subprocess, sys

        def handle(event):
            subprocess.run(["echo", "from a child"], stdout=sys.stdout, stderr=sys.stderr)
            return [
                (stream.encoding, stream.isatty(), stream.writable(), stream.fileno(), stream.name)
                for stream in (sys.stdout, sys.stderr)
            ]
        """
    )
    assert instance.call().body == [["utf-8", False, True, 1, "<stdout>"], ["utf-8", False, True, 2, "<stderr>"]]
    instance.socket.close()
    assert instance.read_output() == "from a child\n"


def test_the_logging_module_works(functions):
    instance = functions.load(
        """
        import logging, warnings
        logger = logging.getLogger("cart")

        def handle(event):
            logger.warning("before it is configured")
            logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
            logger.info("paid %d", 5)
            warnings.warn("old")
        """
    )
    text = [text for stream, text in lines(instance.call()) if stream == "stderr"]
    assert text[:2] == ["before it is configured\n", "INFO cart paid 5\n"]
    assert "UserWarning: old" in text[2]


def test_log_writes_one_line(functions):
    instance = functions.load(
        """
        from nimbus import log

        def handle(event):
            log.debug("one")
            log.info("paid", order=17, by="alice", note="two words", empty="", quote='"', level="x")
            log.warning("a\\nb", lines="a\\nb")
            log.error(ValueError("bad"), where=[1, 2], message="m")
        """
    )
    assert lines(instance.call()) == [
        ("stdout", "DEBUG one\n"),
        ("stdout", 'INFO paid order=17 by=alice note="two words" empty="" quote="\\"" level=x\n'),
        ("stdout", 'WARNING a\\nb lines="a\\nb"\n'),
        ("stdout", 'ERROR bad where="[1, 2]" message=m\n'),
    ]


def test_what_a_thread_without_a_call_prints_belongs_to_none(functions):
    instance = functions.load(
        """
        import contextvars, threading

        def handle(event):
            def run(target):
                thread = threading.Thread(target=target)
                thread.start()
                thread.join()

            run(lambda: print("outside"))
            context = contextvars.copy_context()
            run(lambda: context.run(print, "inside"))
        """
    )
    request = instance.invoke()
    instance.result(request)
    assert instance.logs == [(0, "stdout", "outside\n"), (request, "stdout", "inside\n")]


def test_what_is_printed_after_a_call_belongs_to_none(functions):
    instance = functions.load(
        """
        import contextvars
        kept = []

        def handle(event):
            kept.append(contextvars.copy_context())
            kept[0].run(print, len(kept))
        """
    )
    first, second = instance.invoke(), instance.invoke()
    instance.result(second)
    assert instance.logs == [(first, "stdout", "1\n"), (0, "stdout", "2\n")]


def test_what_bypasses_python_comes_through_the_descriptors(functions):
    instance = functions.load("import os\ndef handle(event): os.write(1, b'raw '); os.write(2, b'bytes')")
    assert instance.call().logs == []
    instance.socket.close()
    assert instance.read_output() == "raw bytes"


def test_the_input_is_empty(functions):
    assert functions.load("import sys\ndef handle(event): return sys.stdin.read()").call().body == ""


def test_the_lines_before_a_crash_arrive(functions):
    instance = functions.load("import os\ndef handle(event): print('last words'); os._exit(7)")
    request = instance.invoke()
    with pytest.raises(host.Ended):
        instance.result(request)
    assert instance.logs == [(request, "stdout", "last words\n")]
