"""Checkpoints of LangGraph in Nimbus.

    graph = builder.compile(checkpointer=NimbusSaver())
    graph.invoke(inputs, {"configurable": {"thread_id": "alice"}})

The methods are those of langgraph.checkpoint.base.BaseCheckpointSaver. A thread is a session, its checkpoints are the session's
events (tag = namespace, invocation_id = checkpoint id), pending writes are events of the track `writes`.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, NamedTuple

from nimbus_adapters.client import Client, NimbusError, part, session_path, user_path

try:
    from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, CheckpointTuple
except ImportError:
    # Writes to these channels take the place of earlier ones; see BaseCheckpointSaver.put_writes.
    WRITES_IDX_MAP = {"__error__": -1, "__scheduled__": -2, "__interrupt__": -3, "__resume__": -4}

    class CheckpointTuple(NamedTuple):  # type: ignore[no-redef]
        config: dict[str, Any]
        checkpoint: dict[str, Any]
        metadata: dict[str, Any]
        parent_config: dict[str, Any] | None = None
        pending_writes: list[tuple[str, str, Any]] | None = None

    class _Json:
        def dumps_typed(self, value: Any) -> tuple[str, bytes]:
            return "json", json.dumps(value).encode()

        def loads_typed(self, typed: tuple[str, bytes]) -> Any:
            return json.loads(typed[1])

    class BaseCheckpointSaver:  # type: ignore[no-redef]
        def __init__(self, *, serde: Any = None) -> None:
            self.serde = serde or _Json()


class NimbusSaver(BaseCheckpointSaver):
    def __init__(self, client: Client | None = None, *, app: str = "langgraph", user: str = "threads", serde: Any = None) -> None:
        super().__init__(serde=serde)
        self._client = client or Client()
        self._app = app
        self._user = user

    def get_tuple(self, config: dict[str, Any]) -> CheckpointTuple | None:
        thread, namespace, checkpoint = _place(config)
        path = self._path(thread)
        try:
            if checkpoint:
                event = self._client.call("GET", f"{path}/events/{part(_id(namespace, checkpoint))}")
            else:
                page = self._client.call("GET", path + "/events", tag=_tag(namespace), order="desc", limit=1)
                if not page["items"]:
                    return None
                event = page["items"][0]
        except NimbusError as error:
            if error.status == 404:
                return None
            raise
        return self._tuple(thread, event)

    def list(
        self,
        config: dict[str, Any] | None,
        *,
        filter: dict[str, Any] | None = None,
        before: dict[str, Any] | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """The newest first. Without a config: of all threads."""
        threads = [config["configurable"]["thread_id"]] if config else self._threads()
        configurable = config["configurable"] if config else {}
        until = before["configurable"].get("checkpoint_id") if before else None
        found = 0
        for thread in threads:
            query = {"order": "desc", "limit": 100}
            if "checkpoint_ns" in configurable:
                query["tag"] = _tag(configurable["checkpoint_ns"])
            try:
                for event in self._client.pages(self._path(thread) + "/events", **query):
                    if limit is not None and found >= limit:
                        return
                    if until and event["invocation_id"] >= until:
                        continue
                    if configurable.get("checkpoint_id") not in (None, event["invocation_id"]):
                        continue
                    one = self._tuple(thread, event)
                    if filter and any(one.metadata.get(key) != value for key, value in filter.items()):
                        continue
                    found += 1
                    yield one
            except NimbusError as error:
                if error.status != 404:
                    raise

    def put(
        self, config: dict[str, Any], checkpoint: dict[str, Any], metadata: dict[str, Any], new_versions: Any
    ) -> dict[str, Any]:
        thread, namespace, parent = _place(config)
        content = {
            "checkpoint": self._pack(checkpoint),
            "metadata": self._pack(metadata),
            "parent": parent,
            "namespace": namespace,
        }
        self._append(thread, "/events", _id(namespace, checkpoint["id"]), namespace, checkpoint["id"], content)
        return _config(thread, namespace, checkpoint["id"])

    def put_writes(
        self, config: dict[str, Any], writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        thread, namespace, checkpoint = _place(config)
        for number, (channel, value) in enumerate(writes):
            index = WRITES_IDX_MAP.get(channel, number)
            content = {"task": task_id, "path": task_path, "channel": channel, "value": self._pack(value)}
            name = f"{_id(namespace, checkpoint)}|{task_id}|{index}"
            try:
                self._append(thread, "/tracks/writes/events", name, namespace, checkpoint, content)
            except NimbusError as error:
                if error.status != 409:
                    raise
                # A task that ran again: what it wrote first stays, but for what says how it ended.
                if index < 0:
                    body = {"tag": _tag(namespace), "invocation_id": checkpoint, "content": content}
                    self._client.call("PUT", f"{self._path(thread)}/tracks/writes/events/{part(name)}", body)

    def delete_thread(self, thread_id: str) -> None:
        try:
            self._client.call("DELETE", self._path(thread_id))
        except NimbusError as error:
            if error.status != 404:
                raise

    async def aget_tuple(self, config: dict[str, Any]) -> CheckpointTuple | None:
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(self, config: dict[str, Any] | None, **options: Any) -> AsyncIterator[CheckpointTuple]:
        for one in await asyncio.to_thread(lambda: [*self.list(config, **options)]):
            yield one

    async def aput(self, *arguments: Any) -> dict[str, Any]:
        return await asyncio.to_thread(self.put, *arguments)

    async def aput_writes(self, *arguments: Any) -> None:
        await asyncio.to_thread(self.put_writes, *arguments)

    async def adelete_thread(self, thread_id: str) -> None:
        await asyncio.to_thread(self.delete_thread, thread_id)

    def _path(self, thread: str) -> str:
        return session_path(self._app, self._user, thread)

    def _threads(self) -> Iterator[str]:
        for session in self._client.pages(user_path(self._app, self._user) + "/sessions"):
            yield session["id"]

    def _append(self, thread: str, where: str, name: str, namespace: str, checkpoint: str, content: Any) -> None:
        event = {"id": name, "tag": _tag(namespace), "invocation_id": checkpoint, "content": content}
        try:
            self._client.call("POST", self._path(thread) + where, event)
        except NimbusError as error:
            if error.status != 404:
                raise
            self._make(thread)
            self._client.call("POST", self._path(thread) + where, event)

    def _make(self, thread: str) -> None:
        try:
            self._client.call("POST", user_path(self._app, self._user) + "/sessions", {"id": thread})
        except NimbusError as error:
            if error.status != 409:  # somebody else has
                raise

    def _tuple(self, thread: str, event: dict[str, Any]) -> CheckpointTuple:
        content, checkpoint = event["content"], event["invocation_id"]
        namespace, parent = content["namespace"], content["parent"]
        writes = self._client.pages(self._path(thread) + "/tracks/writes/events", invocation_id=checkpoint, tag=event["tag"])
        return CheckpointTuple(
            config=_config(thread, namespace, checkpoint),
            checkpoint=self._unpack(content["checkpoint"]),
            metadata=self._unpack(content["metadata"]),
            parent_config=_config(thread, namespace, parent) if parent else None,
            pending_writes=[
                (write["content"]["task"], write["content"]["channel"], self._unpack(write["content"]["value"]))
                for write in writes
            ],
        )

    def _pack(self, value: Any) -> list[str]:
        kind, data = self.serde.dumps_typed(value)
        return [kind, base64.b64encode(data).decode()]

    def _unpack(self, packed: list[str]) -> Any:
        return self.serde.loads_typed((packed[0], base64.b64decode(packed[1])))


def _place(config: dict[str, Any]) -> tuple[str, str, str]:
    configurable = config["configurable"]
    return configurable["thread_id"], configurable.get("checkpoint_ns", ""), configurable.get("checkpoint_id") or ""


def _config(thread: str, namespace: str, checkpoint: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint}}


def _id(namespace: str, checkpoint: str) -> str:
    return f"{namespace}|{checkpoint}"


def _tag(namespace: str) -> str:
    return f"ns:{namespace}"
