"""Sessions of Google ADK in Nimbus.

    runner = Runner(agent=agent, app_name="trips", session_service=NimbusSessionService())

The methods are those of google.adk.sessions.BaseSessionService. Appends of several runs to one session keep their order and
none is lost; an append that is repeated is stored once; `app:` and `user:` state is shared, `temp:` state is not stored.
"""

from __future__ import annotations

import asyncio
import datetime
from dataclasses import dataclass, field
from typing import Any

from nimbus_adapters.client import Client, NimbusError, session_path, user_path

try:
    from google.adk.events.event import Event
    from google.adk.sessions.base_session_service import BaseSessionService, ListSessionsResponse
    from google.adk.sessions.session import Session

    def _dump(event: Event) -> Any:
        return event.model_dump(mode="json", exclude_none=True, by_alias=True)

    def _load(content: Any) -> Event:
        return Event.model_validate(content)

except ImportError:
    BaseSessionService = object  # type: ignore[assignment,misc]

    @dataclass
    class Session:  # type: ignore[no-redef]
        id: str
        app_name: str
        user_id: str
        state: dict[str, Any] = field(default_factory=dict)
        events: list[Any] = field(default_factory=list)
        last_update_time: float = 0.0

    @dataclass
    class ListSessionsResponse:  # type: ignore[no-redef]
        sessions: list[Session] = field(default_factory=list)

    def _dump(event: Any) -> Any:
        return dict(event)

    def _load(content: Any) -> Any:
        return content


_MOST_EVENTS = 1000  # that come with a session


class NimbusSessionService(BaseSessionService):
    def __init__(self, client: Client | None = None) -> None:
        self._client = client or Client()

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        body = {"state": state or {}}
        if session_id and session_id.strip():
            body["id"] = session_id.strip()
        made = await self._call("POST", user_path(app_name, user_id) + "/sessions", body)
        shown = await self._call("GET", session_path(app_name, user_id, made["id"]), merge_state="true")
        return _session(shown, [])

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: Any = None
    ) -> Session | None:
        path = session_path(app_name, user_id, session_id)
        recent = getattr(config, "num_recent_events", None)
        after = getattr(config, "after_timestamp", None)
        wanted = _MOST_EVENTS if recent is None else min(recent, _MOST_EVENTS)
        try:
            shown = await self._call("GET", path, events=wanted, merge_state="true")
        except NimbusError as error:
            if error.status == 404:
                return None
            raise
        events = shown["events"]
        if recent is None and shown.get("partial"):
            events = await asyncio.to_thread(lambda: list(self._client.pages(path + "/events", limit=_MOST_EVENTS)))
        if after is not None:
            events = [event for event in events if _when(event) >= after]
        return _session(shown, [_load(event["content"]) for event in events])

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        base = f"/apps/{app_name}" if user_id is None else user_path(app_name, user_id)
        found = await asyncio.to_thread(lambda: list(self._client.pages(base + "/sessions", limit=_MOST_EVENTS)))
        return ListSessionsResponse(sessions=[_session({**item, "state": {}}, []) for item in found])

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        try:
            await self._call("DELETE", session_path(app_name, user_id, session_id))
        except NimbusError as error:
            if error.status != 404:
                raise

    async def append_event(self, session: Session, event: Any) -> Any:
        """Stores it, and brings `session` up to date. Partial events are passed on and not stored."""
        if _get(event, "partial"):
            return event
        delta = _get(_get(event, "actions"), "state_delta") or {}
        stored = {"author": _get(event, "author"), "invocation_id": _get(event, "invocation_id"), "content": _dump(event)}
        if _get(event, "id"):
            stored["id"] = _get(event, "id")
        if _get(event, "timestamp"):
            stored["timestamp"] = _time(_get(event, "timestamp"))
        if delta:
            stored["state_delta"] = dict(delta)
        path = session_path(session.app_name, session.user_id, session.id)
        answer = await self._call("POST", path + "/events", {k: v for k, v in stored.items() if v or k == "content"})
        for key, value in delta.items():
            if key.startswith("temp:"):
                continue
            if value is None:
                session.state.pop(key, None)
            else:
                session.state[key] = value
        session.events.append(event)
        session.last_update_time = _seconds(answer["session_updated_at"])
        return event

    async def _call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        return await asyncio.to_thread(self._client.call, method, path, body, **query)


def _session(shown: dict[str, Any], events: list[Any]) -> Session:
    return Session(
        id=shown["id"],
        app_name=shown["app_name"],
        user_id=shown["user_id"],
        state=shown["state"],
        events=events,
        last_update_time=_seconds(shown["updated_at"]),
    )


def _when(event: dict[str, Any]) -> float:
    """Exactly as it was given; the server's timestamp is to the microsecond."""
    own = _get(event["content"], "timestamp") if isinstance(event["content"], dict) else None
    return own if isinstance(own, (int, float)) else _seconds(event["timestamp"])


def _get(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, dict) else getattr(thing, name, None)


def _time(seconds: float) -> str:
    moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _seconds(text: str) -> float:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
