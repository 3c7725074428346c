"""How often each fault is tried: a few times in ./test, many times in ./test long. And cleaning up."""

import os

import pytest

from store_process import Writer


@pytest.fixture(scope="session")
def tries():
    long = os.environ.get("NIMBUS_LONG") == "1"
    return lambda normal, many: many if long else normal


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown():
    """A test that fails leaves its writers at work. They would go on for ever, and pytest with them."""
    for writer in list(Writer.running):
        writer.kill()
