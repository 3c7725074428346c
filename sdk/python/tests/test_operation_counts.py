"""What a Result says of the operations on state that the instance carried out itself."""

from host import NOW

HANDLER = """
def attempt(operation, *arguments):
    try:
        return operation(*arguments)
    except Exception:
        return None


def handle(event, state):
    return eval(event)
"""


def operations(functions, *expressions, state=None, **options):
    instance = functions.load(HANDLER, **({"state": state} if state else {}))
    return instance.call("[" + ",".join(expressions) + "]", **options).operations


def test_a_call_that_does_nothing_says_nothing(functions):
    assert operations(functions, "1") is None


def test_each_operation_is_counted_under_its_name(functions):
    counts = operations(
        functions, "state.get('a')", "state.get_with_version('a')", "state.set('a', 1)", "state.set('a', 2)",
        "state.set_many({'b': 1})", "state.keys()",
    )
    assert counts == {"get": 1, "get_with_version": 1, "set": 2, "set_many": 1, "keys": 1}


def test_those_that_fail_are_counted_by_their_code(functions):
    counts = operations(
        functions, "attempt(state.set, 'a', 'x' * 100000)", "attempt(state.get, '')", "state.get('a')",
        "attempt(state.expire, 'missing', 5)", "attempt(state.get_many, 'text')",
        "attempt(state.set_with_version, 'a', 1, 7)",
    )
    assert counts == {
        "get": 1, "set:too_large": 1, "get:invalid_argument": 1, "expire:not_found": 1,
        "get_many:invalid_argument": 1, "set_with_version:version_conflict": 1,
    }


def test_a_call_that_fails_says_what_it_did(functions):
    assert operations(functions, "state.set('a', 1)", "1 / 0") == {"set": 1}


def test_another_scope_stands_before_the_name(functions):
    assert operations(functions, "state.invocation().set('a', 1)") == {"invocation/set": 1}


def test_what_is_asked_of_the_server_is_counted_there_but_for_what_is_never_asked(functions):
    instance = functions.load(HANDLER)
    replies = iter([{"value": 1}, {"success": False, "error": "quota_exceeded"}])
    instance.on_state = lambda head, values: (next(replies), [])
    event = "[state.function().incr('n'), attempt(state.function().incr, ''), attempt(state.function().set, 'n', 1)]"
    assert instance.call(event).operations == {"function/incr:invalid_argument": 1}


def test_in_a_call_without_a_session_the_server_counts(functions):
    instance = functions.load(HANDLER)
    instance.on_state = lambda head, values: ({"value": 1, "version": 1}, [])
    assert instance.call("[state.incr('n'), state.invocation().set('a', 1)]", session=False).operations == {
        "invocation/set": 1
    }
    assert instance.call("state.incr('n')", session=False).operations is None


def test_one_that_had_to_load_is_counted_like_others(functions):
    instance = functions.load(HANDLER)
    instance.on_state = lambda head, values: ({"keys": [["a", 1, 0, 6]]}, [b'"text"'])
    counts = instance.call("[state.get('a'), attempt(state.incr, 'a')]", keys=[["a", 1, 0, 6]], now=NOW).operations
    assert counts == {"get": 1, "incr:invalid_argument": 1}


def test_a_function_without_state_is_told_so_and_that_is_counted(functions):
    assert operations(functions, "attempt(state.get, 'a')", state={"enabled": False}) == {"get:forbidden": 1}


def test_the_state_of_the_module_counts_too(functions):
    instance = functions.load("from nimbus import state\n\n\ndef handle(event):\n    return state.incr('n')\n")
    assert instance.call(None).operations == {"incr": 1}
