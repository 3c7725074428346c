"""The event logs of a server, over HTTP. Only the standard library."""

from __future__ import annotations

import http.client
import json
import os
import threading
import urllib.parse
from collections.abc import Iterator
from typing import Any


class NimbusError(Exception):
    """What the server refused: `status`, `code`, and the whole answer as `problem`."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        super().__init__(problem.get("detail") or problem.get("title") or str(status))
        self.status = status
        self.code = problem.get("code", "internal")
        self.problem = problem


class Client:
    """Any thread; each has a connection of its own."""

    def __init__(self, url: str | None = None, key: str | None = None, timeout: float = 30.0) -> None:
        self._url = urllib.parse.urlsplit(url or os.environ.get("NIMBUS_URL", "http://127.0.0.1:8787"))
        self._key = key or os.environ.get("NIMBUS_KEY")
        self._timeout = timeout
        self._own = threading.local()

    def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        given = {name: value for name, value in query.items() if value is not None}
        if given:
            path += "?" + urllib.parse.urlencode(given)
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        text = None if body is None else json.dumps(body)
        try:
            status, data = self._exchange(method, path, text, headers)
        except (http.client.RemoteDisconnected, ConnectionError):
            if method == "POST":  # it may have happened; who repeats it needs an id
                self._own.connection = None
                raise
            self._own.connection = None
            status, data = self._exchange(method, path, text, headers)
        answer = json.loads(data) if data else None
        if status >= 400:
            raise NimbusError(status, answer or {})
        return answer

    def _exchange(self, method: str, path: str, text: str | None, headers: dict[str, str]) -> tuple[int, bytes]:
        connection = getattr(self._own, "connection", None)
        if connection is None:
            kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
            connection = self._own.connection = kind(self._url.netloc, timeout=self._timeout)
        connection.request(method, "/api/v1" + path, body=text, headers=headers)
        response = connection.getresponse()
        return response.status, response.read()

    def pages(self, path: str, **query: Any) -> Iterator[dict[str, Any]]:
        """All items of a list."""
        cursor = None
        while True:
            page = self.call("GET", path, cursor=cursor, **query)
            yield from page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return


def user_path(app: str, user: str) -> str:
    return f"/apps/{part(app)}/users/{part(user)}"


def session_path(app: str, user: str, session: str) -> str:
    return f"{user_path(app, user)}/sessions/{part(session)}"


def part(text: str) -> str:
    return urllib.parse.quote(text, safe="")
