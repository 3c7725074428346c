"""Runs without a server: PYTHONPATH=sdk/python python3 -m pytest examples/functions/report"""

import pathlib

import pytest
from nimbus.testing import Session, load

main = load(pathlib.Path(__file__).parents[1])
SETTINGS = {
    "retry": {"max_attempts": 5, "initial_ms": 2000, "factor": 2, "max_ms": 60000},
    "state_config": {"on_error": "keep", "default_ttl": 604800},
}


@pytest.fixture
def source(monkeypatch):
    """A source of pages that fails when it is told to, and remembers what it was asked for."""

    class Source:
        asked = []
        failing = {}  # page: how often it still fails

        def fetch(self, month, page):
            self.asked.append(page)
            if self.failing.get(page, 0) > 0:
                self.failing[page] -= 1
                raise ConnectionError(f"page {page} cannot be had")
            return {"page": page, "total": 10}

    source = Source()
    source.asked, source.failing = [], {}
    monkeypatch.setattr(main, "fetch_page", source.fetch)
    return source


def test_a_report_is_made_and_can_be_fetched(source):
    reports = Session(main.handle, "team-a", **SETTINGS)
    assert reports.call({"action": "show"}).status_code == 404
    answer = reports.deliver({"month": "2026-01"})
    assert answer.body == {"month": "2026-01", "total": 50, "attempts": 1}
    assert reports.invoke({"action": "show"}) == answer.body
    assert list(reports.state) == ["report"]


def test_an_attempt_goes_on_where_the_last_one_stopped(source):
    source.failing = {3: 2}
    reports = Session(main.handle, "team-a", **SETTINGS)
    begin = reports.function.clock.now_ms
    answer = reports.deliver({"month": "2026-01"})
    assert answer.status == "succeeded" and answer.attempts == 3
    assert source.asked == [1, 2, 3, 3, 3, 4, 5]  # no page that was had is fetched again
    assert reports.function.clock.now_ms - begin == 2000 + 4000


def test_after_the_last_attempt_what_was_done_is_still_there(source):
    source.failing = {2: 100}
    reports = Session(main.handle, "team-a", **SETTINGS)
    answer = reports.deliver({"month": "2026-01"})
    assert answer.status == "failed" and answer.attempts == 5
    assert answer.error["type"] == "ConnectionError"
    source.failing = {}
    assert reports.deliver({"month": "2026-01"}).body["total"] == 50  # as a replay would
    assert source.asked.count(1) == 1
