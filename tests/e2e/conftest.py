import pytest

from harness import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One server for all tests of a module that only ask it things."""
    with Server(tmp_path_factory.mktemp("server")) as running:
        yield running


