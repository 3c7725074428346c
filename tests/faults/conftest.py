"""How often each fault is tried: a few times in ./test, many times in ./test long."""

import os

import pytest


@pytest.fixture(scope="session")
def tries():
    long = os.environ.get("NIMBUS_LONG") == "1"
    return lambda normal, many: many if long else normal
