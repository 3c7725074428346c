"""Checkpoints of LangGraph in Nimbus, without a graph: what a compiled graph does with its checkpointer.

PYTHONPATH=adapters/python NIMBUS_URL=… NIMBUS_KEY=… python3 adapters/examples/langgraph_checkpoints.py
"""

from nimbus_adapters.langgraph import NimbusSaver

saver = NimbusSaver()
thread = {"configurable": {"thread_id": "alice"}}
checkpoint = {"v": 1, "id": "0001", "channel_values": {"messages": ["hello"]}}
stored = saver.put(thread, checkpoint, {"source": "input", "step": -1}, {})
saver.put_writes(stored, [("messages", "hi Alice")], task_id="task-1")
latest = saver.get_tuple(thread)
print(latest.checkpoint["channel_values"], latest.pending_writes)
