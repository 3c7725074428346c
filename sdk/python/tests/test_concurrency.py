"""Several calls at once, on threads and as tasks."""

import pytest

import host


def test_a_plain_handler_runs_on_as_many_threads_as_allowed(functions):
    instance = functions.load(
        """
        import threading
        barrier = threading.Barrier(4)

        def handle(event):
            barrier.wait(20)
            return event
        """,
        concurrency=4,
    )
    requests = [instance.invoke(n) for n in range(8)]
    assert [instance.result(request).body for request in requests] == list(range(8))


def test_an_async_handler_runs_as_tasks(functions):
    instance = functions.load(
        """
        import asyncio
        arrived = []
        everybody = asyncio.Event()

        async def handle(event):
            arrived.append(event)
            if len(arrived) == 4:
                everybody.set()
            await everybody.wait()
            return event
        """,
        concurrency=4,
    )
    requests = [instance.invoke(n) for n in range(4)]
    assert [instance.result(request).body for request in requests] == list(range(4))


def test_an_async_handler_runs_one_call_at_a_time_unless_more_are_allowed(functions):
    instance = functions.load(
        """
        import asyncio
        running = 0

        async def handle(event):
            global running
            running += 1
            for _ in range(20):
                await asyncio.sleep(0)
            seen = running
            running -= 1
            return seen
        """
    )
    requests = [instance.invoke(n) for n in range(6)]
    assert [instance.result(request).body for request in requests] == [1] * 6


HANDLERS = {
    "threads": """
        import threading
        from nimbus import state, log
        barrier = threading.Barrier(4)

        def handle(event, own, context):
            for n in range(50):
                state.incr("a")
                own.set(event, n)
                state.invocation().incr("b")
                if n % 10 == 0:
                    print(event, end="")
                    barrier.wait(20)
            log.info("end", event=event)
            value = state.function().get(event)
            return state.get("a"), own.get(event), state.invocation().get("b"), context.session_key, value
    """,
    "tasks": """
        import asyncio
        from nimbus import state, log

        async def deeper(event):
            await asyncio.sleep(0)
            state.incr("a")

        async def handle(event, own, context):
            for n in range(50):
                await asyncio.create_task(deeper(event))
                own.set(event, n)
                await asyncio.to_thread(state.invocation().incr, "b")
                await asyncio.sleep(0)
                if n % 10 == 0:
                    print(event, end="")
            log.info("end", event=event)
            value = await asyncio.to_thread(state.function().get, event)
            return state.get("a"), own.get(event), state.invocation().get("b"), context.session_key, value
    """,
}


@pytest.mark.parametrize("kind", HANDLERS)
def test_every_call_has_its_own_state_and_logs(functions, kind):
    instance = functions.load(HANDLERS[kind], concurrency=4)
    instance.on_state = lambda head, values: ({"version": 1}, [host.encode(head["key"] * 2)])
    for _ in range(3):
        requests = {}
        for name in "wxyz":
            there = {"keys": [["a", 1, 0, 3]], "values": [b"%d00" % ord(name)]}
            requests[name] = instance.invoke(name, context={"session_key": name}, **there)
        for name, request in requests.items():
            result = instance.result(request)
            assert result.body == [ord(name) * 100 + 50, 49, 50, name, name * 2]
            assert set(result.writes) == {"a", name}
            assert result.writes["a"][0] == 51
            assert [text for _, _, text in result.logs] == [f"{name * 5}INFO end event={name}\n"]


@pytest.mark.parametrize("kind", ["", "async "])
def test_replies_may_come_in_any_order(functions, kind):
    instance = functions.load(f"{kind}def handle(event, state): return state.function().get(event)", concurrency=4)
    count = 1 if kind else 4  # where all run on one thread, the first waits for its reply
    requests = {name: instance.invoke(name) for name in "abcd"[:count]}
    asking = [instance.receive() for _ in requests]
    for frame in reversed(asking):
        instance.reply(frame, {"version": 1}, [host.encode(frame.head["key"] * 2)])
    for name, request in requests.items():
        assert instance.result(request).body == name * 2


def test_threads_of_an_async_handler_wait_for_replies_beside_each_other(functions):
    instance = functions.load(
        """
        import asyncio

        async def handle(event, state):
            return await asyncio.gather(*(asyncio.to_thread(state.function().get, key) for key in event))
        """
    )
    request = instance.invoke(["a", "b", "c"])
    asking = [instance.receive() for _ in range(3)]
    for frame in reversed(asking):
        instance.reply(frame, {"version": 1}, [host.encode(frame.head["key"] * 2)])
    assert instance.result(request).body == ["aa", "bb", "cc"]
    again = instance.invoke(["x"])
    instance.reply(instance.receive(), {"version": 0})
    assert instance.result(again).body == [None]


def test_the_loop_is_the_same_for_all_calls(functions):
    instance = functions.load(
        """
        import asyncio
        loops = set()
        ticks = 0

        async def tick():
            global ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        async def handle(event):
            loops.add(asyncio.get_running_loop())
            if event == 0:
                handle.task = asyncio.create_task(tick())
            before = ticks
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            return len(loops), ticks > before
        """
    )
    assert [instance.call(n).body for n in range(3)] == [[1, True]] * 3


def test_cancel_stops_an_async_handler(functions):
    instance = functions.load(
        """
        import asyncio

        async def handle(event, state):
            state.set("a", 1)
            print("waiting")
            try:
                if event:
                    await asyncio.sleep(1000)
            finally:
                print("cleaned up", end="")
            return "well"
        """
    )
    request = instance.invoke(True)
    assert instance.receive().kind == host.LOG
    instance.cancel(request, "cancelled")
    result = instance.result(request)
    assert result.error == {"type": "CancelledError", "message": "the call was cancelled: cancelled"}
    assert list(result.writes) == ["a"]
    assert result.logs == [(request, "stdout", "cleaned up\n")]
    assert instance.call(False).body == "well"


def test_a_handler_may_answer_although_it_is_cancelled(functions):
    instance = functions.load(
        """
        import asyncio

        async def handle(event):
            print("waiting")
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                return "all the same"
        """
    )
    request = instance.invoke()
    instance.receive()
    instance.cancel(request)
    assert instance.result(request).body == "all the same"


def test_a_call_cancelled_before_its_first_step_gets_its_result(functions):
    instance = functions.load("async def handle(event): return event", concurrency=4)
    head = host.encode({"context": host.CONTEXT, "now": host.NOW})
    frames = b""
    for n in (11, 12):
        frames += host.pack(host.INVOKE, n, head, b"1") + host.pack(host.CANCEL, n, b'{"reason":"timeout"}')
    instance.socket.sendall(frames)
    assert {instance.result(n).error["type"] for n in (11, 12)} == {"CancelledError"}
    assert instance.call(5).body == 5


def test_cancel_reaches_a_handler_while_another_waits_for_a_reply(functions):
    instance = functions.load(
        """
        import asyncio

        async def handle(event, state):
            if event:
                return await asyncio.to_thread(state.function().get, "a")
            print("waiting")
            await asyncio.sleep(1000)
        """,
        concurrency=4,
    )
    asking_request = instance.invoke(True)
    asking = instance.receive()
    sleeper = instance.invoke(False)
    assert instance.receive().request == sleeper
    instance.cancel(sleeper)
    assert instance.result(sleeper).error["type"] == "CancelledError"
    instance.reply(asking, {"version": 0})
    assert instance.result(asking_request).body is None


def test_a_handler_that_cancels_itself_is_an_error(functions):
    instance = functions.load("import asyncio\nasync def handle(event): raise asyncio.CancelledError")
    assert instance.call().error["type"] == "CancelledError"


@pytest.mark.parametrize("kind", ["", "async "])
def test_failing_calls_do_not_disturb_others(functions, kind):
    code = f"""
        {kind}def handle(event, state):
            if event % 2: raise ValueError(event)
            return state.incr("a")
    """
    instance = functions.load(code, concurrency=4)
    for start in range(0, 40, 4):
        requests = [instance.invoke(n) for n in range(start, start + 4)]
        for n, request in zip(range(start, start + 4), requests):
            result = instance.result(request)
            assert (result.error["message"], result.body) == (str(n), None) if n % 2 else result.body == 1


def test_a_handler_that_never_waits_is_a_task_like_others(functions):
    instance = functions.load(
        """
        import asyncio, contextvars
        seen = contextvars.ContextVar("seen", default=0)
        tasks = set()

        async def deeper():
            seen.set(seen.get() + 1)
            return asyncio.current_task()

        async def handle(event):
            task = asyncio.current_task()
            tasks.add(task)
            async with asyncio.timeout(20):
                same = await deeper() is task
            return same, len(tasks), seen.get(), len(asyncio.all_tasks())
        """
    )
    requests = [instance.invoke() for _ in range(5)]
    assert [instance.result(request).body for request in requests] == [[True, n, 1, 1] for n in range(1, 6)]


def test_a_function_may_choose_its_loop(functions):
    """Here one that does not keep what it runs next where asyncio's own loops do."""
    instance = functions.load(
        """
        import asyncio

        class Loop(asyncio.AbstractEventLoop):
            def __init__(self): object.__setattr__(self, "inner", asyncio.SelectorEventLoop())

        def passed_on(name):
            def method(self, *arguments, **options):
                return getattr(self.inner, name)(*arguments, **options)
            return method

        for name in dir(asyncio.AbstractEventLoop):
            if not name.startswith("_"):
                setattr(Loop, name, passed_on(name))

        class Policy(asyncio.DefaultEventLoopPolicy):
            def new_event_loop(self): return Loop()

        asyncio.set_event_loop_policy(Policy())

        async def handle(event, state):
            for _ in range(event):
                await asyncio.sleep(0)
            return state.incr("a", event)
        """
    )
    requests = [instance.invoke(n) for n in (0, 3, 1)]
    assert [instance.result(request).body for request in requests] == [0, 3, 1]
