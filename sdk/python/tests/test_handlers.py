"""How handlers are called, and what becomes of what they return or raise."""

import time

import pytest

from host import CONTEXT

ECHO = "return {'event': event, 'state': state is not None, 'context': context is not None}"

SIGNATURES = {
    "def handle(event): state = context = None": [False, False],
    "def handle(event, state): context = None": [True, False],
    "def handle(event, state, context): pass": [True, True],
    "def handle(event, state=None): context = None": [True, False],
    "def handle(event, state, context=None, more=5): assert more == 5": [True, True],
    "def handle(*all): event, state, context = all": [True, True],
    "def handle(event, *rest): state, context = rest": [True, True],
    "def handle(event, /, **named): state = context = None; assert not named": [False, False],
    "def handle(event, state, *, named=5): context = None": [True, False],
}


@pytest.mark.parametrize("kind", ["", "async "])
@pytest.mark.parametrize("signature", SIGNATURES)
def test_a_handler_gets_as_many_arguments_as_it_takes(functions, kind, signature):
    definition, _, first = signature.partition(": ")
    code = f"{kind}{definition}:\n    {first}\n    {ECHO}\n"
    state, context = SIGNATURES[signature]
    assert functions.load(code).call([1]).body == {"event": [1], "state": state, "context": context}


PARTIAL = """
import functools
def f(prefix, event): return prefix + event
handle = functools.partial(f, 'x')
"""
OBJECT = """
class Handler:
    def __call__(self, event, state): return 'x' + event
handle = Handler()
"""

CALLABLES = {
    "partial": PARTIAL,
    "async partial": PARTIAL.replace("def", "async def"),
    "object": OBJECT,
    "async object": OBJECT.replace("def", "async def"),
    "method": "class Handler:\n    def run(self, event): return 'x' + event\nhandle = Handler().run",
    "lambda": "handle = lambda event, state, context: 'x' + event",
    "class": "class handle(str):\n    def __new__(cls, event): return str.__new__(cls, 'x' + event)",
    "decorated": """
import functools
def decorate(f):
    @functools.wraps(f)
    def wrapper(*args): return f(*args)
    return wrapper
@decorate
def handle(event): return 'x' + event
""",
    "decorated with more": """
import functools
def decorate(f):
    @functools.wraps(f)
    def wrapper(event, state): return f(event, 'x', 1, 2)
    return wrapper
@decorate
def handle(event, prefix, more, yet_more): return prefix + event
""",
    "async decorated": """
import functools
def decorate(f):
    @functools.wraps(f)
    def wrapper(*args): return f(*args)
    return wrapper
@decorate
async def handle(event): return 'x' + event
""",
    "async decorated without wraps": """
import asyncio
def decorate(f):
    return lambda event: f(event)
@decorate
async def handle(event):
    await asyncio.sleep(0)
    return 'x' + event
""",
    "future": """
import asyncio
async def late(event): return 'x' + event
class Handler:
    async def __call__(self): pass
async def handle(event): return await asyncio.ensure_future(late(event))
""",
}


@pytest.mark.parametrize("name", CALLABLES)
def test_whatever_can_be_called_is_a_handler(functions, name):
    instance = functions.load(CALLABLES[name])
    assert [instance.call("a").body, instance.call("b").body] == ["xa", "xb"]


def test_a_builtin_can_be_a_handler(functions):
    assert functions.load("handle = len").call([1, 2]).body == 2


def test_the_context_has_attributes_and_members(functions):
    instance = functions.load(
        """
        def handle(event, state, context):
            assert [getattr(context, name) for name in context] == list(context.values())
            try:
                context.nothing
            except AttributeError as error:
                assert "nothing" in str(error)
            return dict(context), context.request_id, context["session_seq"], context.get("nothing", 5)
        """
    )
    assert instance.call().body == [CONTEXT, "r-1", 17, 5]
    stateless = instance.call(session=False).body[0]
    assert stateless == {**CONTEXT, "session_key": None, "session_seq": None}


@pytest.mark.parametrize("strange", ['},"now":5', '"},"now":', "\\", '{"context":{'])
def test_a_context_may_hold_any_text(functions, strange):
    instance = functions.load("def handle(event, state, context): state.set('a', 1); return context['session_key']")
    result = instance.call(context={"session_key": strange, "nested": {"x": {}, "now": 5}})
    assert result.body == strange
    assert result.writes["a"][0] == 1


def test_the_context_knows_how_much_time_is_left(functions):
    instance = functions.load("def handle(event, state, context): return context.remaining_ms()")
    now = time.time_ns() // 1_000_000
    left = instance.call(context={"deadline_ms": now + 60_000}).body
    assert 30_000 < left <= 60_000
    assert instance.call(context={"deadline_ms": now - 1}).body == 0


def test_an_event_is_any_json(functions):
    instance = functions.load("def handle(event): return event")
    for event in (None, 0, 2**70, "ä𝄞", [], {}, {"a": [1, {"b": None}]}):
        assert instance.call(event).body == event


def test_an_event_that_python_cannot_read_is_an_error_of_the_call(functions):
    instance = functions.load("def handle(event): return event")
    assert instance.call(b"[" * 100_000 + b"]" * 100_000).error["type"] == "RecursionError"
    assert instance.call(b"9" * 5000).error["type"] == "ValueError"
    assert instance.call(b"{").error["type"] == "JSONDecodeError"
    assert instance.call(b" 5 ").body == 5


def test_nothing_is_null(functions):
    result = functions.load("def handle(event): pass").call()
    assert (result.status, result.text) == (200, b"null")


def test_an_answer_is_compact_json_in_utf_8(functions):
    result = functions.load("def handle(event): return {'b': [1, 2.5], 'a': 'ä', 'c': (None, True)}").call()
    assert result.text == '{"b":[1,2.5],"a":"ä","c":[null,true]}'.encode()


STATUSES = {
    "{'status_code': 201, 'body': {'a': 1}}": (201, {"a": 1}),
    "{'body': None, 'status_code': 599}": (599, None),
    "{'status_code': 200, 'body': 5}": (200, 5),
    "{'status_code': http.HTTPStatus.CREATED, 'body': 5}": (201, 5),
    "{'status_code': 199, 'body': 5}": (200, {"status_code": 199, "body": 5}),
    "{'status_code': 600, 'body': 5}": (200, {"status_code": 600, "body": 5}),
    "{'status_code': '404', 'body': 5}": (200, {"status_code": "404", "body": 5}),
    "{'status_code': 404.0, 'body': 5}": (200, {"status_code": 404.0, "body": 5}),
    "{'status_code': True, 'body': 5}": (200, {"status_code": True, "body": 5}),
    "{'status_code': 404}": (200, {"status_code": 404}),
    "{'status_code': 404, 'body': 5, 'more': 1}": (200, {"status_code": 404, "body": 5, "more": 1}),
    "[{'status_code': 404, 'body': 5}]": (200, [{"status_code": 404, "body": 5}]),
}


@pytest.mark.parametrize("answer", STATUSES)
def test_a_function_may_choose_its_status(functions, answer):
    result = functions.load(f"import http\ndef handle(event): return {answer}").call()
    assert (result.status, result.body) == STATUSES[answer]


@pytest.mark.parametrize("kind", ["", "async "])
@pytest.mark.parametrize("answer", ["object()", "{1, 2}", "float('nan')", "'\\ud800'", "[b'']", "circle", "10**5000"])
def test_an_answer_that_is_no_json_is_an_error_of_the_function(functions, kind, answer):
    instance = functions.load(
        f"""
        circle = []
        circle.append(circle)
        {kind}def handle(event, state):
            state.set("a", 1)
            return {answer} if event else 5
        """
    )
    result = instance.call(True)
    assert result.error["type"] == "TypeError"
    assert result.error["message"].startswith("the answer is not JSON: ")
    assert result.status is None and result.text == b""
    assert list(result.writes) == ["a"]
    assert instance.call(False).body == 5


def test_an_answer_too_large_for_a_frame_is_an_error_of_the_function(functions):
    instance = functions.load("def handle(event, state): state.set('a', 1); return 'x' * event")
    result = instance.call(64 << 20)
    assert result.error == {"type": "ValueError", "message": "the answer is too large"}
    assert list(result.writes) == ["a"]
    assert len(instance.call((64 << 20) - 1000).body) == (64 << 20) - 1000


def test_writes_too_large_for_a_frame_are_an_error_of_the_function(functions):
    code = "def handle(event, state):\n for key in 'ab': state.set(key, 'x' * event)"
    instance = functions.load(code, state={"enabled": True})
    result = instance.call(40 << 20)
    assert result.error["type"] == "ValueError" and result.changes == ({}, {}, {})
    assert len(instance.call(5).writes) == 2


@pytest.mark.parametrize("kind", ["", "async "])
def test_an_exception_is_told_with_its_trace_and_what_was_written(functions, kind):
    instance = functions.load(
        f"""
        class NoSuchItem(Exception):
            pass

        def find(name):
            raise NoSuchItem("no item " + name)

        {kind}def handle(event, state):
            state.set("a", 1)
            state.delete("b")
            find(event)
        """
    )
    result = instance.call("ä", keys=[["b", 3, 0, 1]], values=[b"1"])
    assert result.status is None and result.text == b""
    assert result.error["type"] == "NoSuchItem"
    assert result.error["message"] == "no item ä"
    lines = result.error["trace"].splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    places = [line.split(", ")[1:] for line in lines if line.startswith("  File")]
    assert places == [["line 11", "in handle"], ["line 6", "in find"]]
    assert lines[-1] == "main.NoSuchItem: no item ä"
    assert list(result.writes) == ["a"] and result.deletes == {"b": 3}


def test_a_trace_has_no_frames_of_the_sdk(functions):
    instance = functions.load(
        """
        def handle(event, state):
            try:
                state.set("", 1)
            except Exception as error:
                raise RuntimeError("outer") from error
        """
    )
    trace = instance.call().error["trace"]
    assert "direct cause" in trace and "RuntimeError: outer" in trace and "invalid_argument" in trace
    assert trace.count("main.py") == 2
    assert "_state.py" not in trace and "_runner.py" not in trace


RAISED = {
    "raise KeyboardInterrupt": "KeyboardInterrupt",
    "raise GeneratorExit": "GeneratorExit",
    "raise BaseException('x')": "BaseException",
    "handle(event)": "RecursionError",
    "raise MemoryError": "MemoryError",
    "raise StopIteration": "StopIteration",
    "raise ExceptionGroup('several', [ValueError(1), KeyError(2)])": "ExceptionGroup",
    "eval('1 +')": "SyntaxError",
    "raise type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})": "Odd",
    "raise Exception('\\ud800')": "Exception",
    "assert False": "AssertionError",
}


@pytest.mark.parametrize("statement", RAISED)
def test_whatever_is_raised_is_an_error_of_the_function(functions, statement):
    instance = functions.load(f"def handle(event):\n    if event: {statement}\n    return 'well'")
    result = instance.call(True)
    assert result.error["type"] == RAISED[statement]
    assert result.error["trace"]
    assert instance.call(False).body == "well"


@pytest.mark.parametrize("statement", [s for s in RAISED if s not in ("handle(event)", "raise StopIteration")])
def test_whatever_an_async_handler_raises_is_an_error_of_the_function(functions, statement):
    instance = functions.load(f"async def handle(event):\n    if event: {statement}\n    return 'well'")
    assert instance.call(True).error["type"] == RAISED[statement]
    assert instance.call(False).body == "well"


def test_messages_and_traces_are_bounded(functions):
    instance = functions.load(
        """
        def even(n): return odd(n - 1) if n else 1 / 0
        def odd(n): return even(n - 1)

        def handle(event):
            if event: raise ValueError("ä" * 100_000)
            even(900)
        """
    )
    assert len(instance.call(True).error["message"].encode()) == 8 << 10
    trace = instance.call(False).error["trace"]
    assert len(trace.encode()) <= 64 << 10
    assert trace.endswith("ZeroDivisionError: division by zero\n")


def test_a_handler_that_catches_everything_goes_on(functions):
    instance = functions.load(
        """
        import sys

        def handle(event):
            try:
                sys.exit(3)
            except BaseException:
                return "caught"
        """
    )
    assert [instance.call().body, instance.call().body] == ["caught", "caught"]


def test_state_is_there_only_in_a_call(functions):
    instance = functions.load(
        """
        import contextvars, threading
        from nimbus import StateError, state

        try:
            state.get("a")
        except StateError as error:
            outside = error.code

        kept = []

        def attempt(state):
            try:
                return state.set("a", 1)
            except StateError as error:
                return error.code

        def handle(event, own):
            kept.append((own, own.function(), contextvars.copy_context()))
            outcomes = [outside]
            thread = threading.Thread(target=lambda: outcomes.append(attempt(state)))
            thread.start()
            thread.join()
            if len(kept) > 1:
                own, function, context = kept[0]
                outcomes += [attempt(own), attempt(function), context.run(attempt, state)]
            return outcomes
        """
    )
    assert instance.call().body == ["unavailable", "unavailable"]
    result = instance.call()
    assert result.body == ["unavailable"] * 5
    assert result.changes == ({}, {}, {})


def test_state_is_the_same_however_it_is_reached(functions):
    instance = functions.load(
        """
        import nimbus
        from nimbus import State, state

        def handle(event, own):
            own.set("a", 1)
            state.incr("a")
            State.session().incr("a")
            own.session().incr("a")
            state.session().incr("a")
            State().incr("a")
            State("session").incr("a")
            own.invocation().set("b", 1)
            State.invocation().incr("b")
            State("invocation").incr("b")
            state.function().session().incr("a")
            try:
                State("galaxy")
            except nimbus.StateError as error:
                assert error.code == "invalid_argument"
            return nimbus.state.get("a"), state.invocation().get("b")
        """
    )
    assert instance.call().body == [8, 3]


def test_a_thread_of_the_handler_may_use_the_state_it_was_given(functions):
    instance = functions.load(
        """
        import sys
        from concurrent.futures import ThreadPoolExecutor
        sys.setswitchinterval(1e-6)

        def handle(event, state):
            with ThreadPoolExecutor(8) as pool:
                for _ in range(2000):
                    pool.submit(state.incr, "a")
                list(pool.map(state.function().incr, ["f"] * 20))
            return state.get("a")
        """
    )
    count = iter(range(1, 100))
    instance.on_state = lambda head, values: ({"value": next(count)}, ())
    assert instance.call().body == 2000
    assert next(count) == 21


def test_what_a_handler_sets_in_its_context_is_not_for_the_next(functions):
    instance = functions.load(
        """
        import contextvars
        user = contextvars.ContextVar("user", default=None)

        def handle(event):
            before = user.get()
            user.set(event)
            return before
        """
    )
    assert [instance.call("alice").body, instance.call("bob").body] == [None, None]


def test_the_seed_programs_run(functions):
    """The shopping cart and the conversation of the first design, unchanged but for the model."""
    cart = functions.load(
        """
        def handle(event, state):
            action = event.get('action')
            if action == 'add':
                item_id = event.get('item_id')
                cart = state.get('cart') or []
                cart.append(item_id)
                state.set('cart', cart, ttl=3600)
                return {'cart_size': len(cart)}
            elif action == 'get':
                cart = state.get('cart') or []
                return {'cart': cart}
            elif action == 'clear':
                state.delete('cart')
                return {'cart_size': 0}
            elif action == 'checkout':
                cart = state.get('cart') or []
                state.delete('cart')
                return {'order_id': 'order_123', 'items': cart}
        """
    )
    there = {"keys": [["cart", 1, 0, 5]], "values": [b'["a"]']}
    result = cart.call({"action": "add", "item_id": "b"}, **there)
    assert result.body == {"cart_size": 2} and result.writes["cart"][2] == b'["a","b"]'
    assert cart.call({"action": "get"}, **there).body == {"cart": ["a"]}
    assert cart.call({"action": "checkout"}, **there).body == {"order_id": "order_123", "items": ["a"]}
    chat = functions.load(
        """
        def call_ai_model(history):
            return history[-1]['content'].upper()

        def handle(event, state):
            user_message = event.get('message')
            history = state.get('conversation_history') or []
            history.append({'role': 'user', 'content': user_message})
            ai_response = call_ai_model(history)
            history.append({'role': 'assistant', 'content': ai_response})
            if len(history) > 20:
                history = history[-20:]
            state.set('conversation_history', history, ttl=1800)
            return {'response': ai_response}
        """
    )
    assert chat.call({"message": "hi"}).body == {"response": "HI"}


def test_an_operation_that_comes_too_late_is_refused(functions):
    """A thread that goes on after the call must not be told that its write went well."""
    instance = functions.load(
        """
        import threading
        from nimbus import StateError

        begun, go_on = threading.Event(), threading.Event()

        class Slow(dict):
            def items(self):
                begun.set()
                go_on.wait(20)
                return [("a", 1)]

        def handle(event, state):
            global thread, outcome

            def work():
                global outcome
                try:
                    outcome = state.set("a", Slow(a=1))
                except StateError as error:
                    outcome = error.code

            if event == "begin":
                state.set("b", 1)
                thread = threading.Thread(target=work)
                thread.start()
                begun.wait(20)
                return
            go_on.set()
            thread.join()
            return outcome
        """
    )
    assert list(instance.call("begin").writes) == ["b"]
    result = instance.call("go on")
    assert result.body == "unavailable"
    assert result.changes == ({}, {}, {})


def test_threads_that_are_first_to_use_a_scope_share_it(functions):
    instance = functions.load(
        """
        import sys, threading
        sys.setswitchinterval(1e-6)

        def handle(event, state):
            barrier = threading.Barrier(8)

            def work():
                barrier.wait(20)
                state.incr("a")

            threads = [threading.Thread(target=work) for _ in range(8)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            return state.get("a")
        """
    )
    assert [instance.call().body for _ in range(40)] == [8] * 40
