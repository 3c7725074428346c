"""Runs without a server: PYTHONPATH=sdk/python python3 -m pytest examples/functions/counter"""

import pathlib

from nimbus.testing import Function, load

main = load(pathlib.Path(__file__).parents[1])


def test_visits_are_counted_for_each_and_for_all():
    function = Function(main.handle)
    alice, bob = function.session("alice"), function.session("bob")
    assert alice.invoke() == {"visits": 1, "everyone": 1}
    assert alice.invoke() == {"visits": 2, "everyone": 2}
    assert bob.invoke() == {"visits": 1, "everyone": 3}
    assert alice.state == {"visits": 2}
    assert function.state == {"visits": 3}


def test_counts_do_not_expire():
    function = Function(main.handle, state_config={"default_ttl": 0})
    alice = function.session("alice")
    alice.invoke()
    function.clock.advance(365 * 24 * 3600)
    assert alice.invoke()["visits"] == 2
