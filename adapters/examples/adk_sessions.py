"""Sessions of Google ADK in Nimbus, without an agent: what a Runner does with its session service.

PYTHONPATH=adapters/python NIMBUS_URL=… NIMBUS_KEY=… python3 adapters/examples/adk_sessions.py
"""

import asyncio

from nimbus_adapters.adk import NimbusSessionService


async def main():
    service = NimbusSessionService()
    session = await service.create_session(app_name="trips", user_id="ann", state={"step": 1, "user:name": "Ann"})
    event = {"author": "user", "content": {"parts": [{"text": "To Rome, please"}]}, "actions": {"state_delta": {"step": 2}}}
    await service.append_event(session, event)
    again = await service.get_session(app_name="trips", user_id="ann", session_id=session.id)
    print(again.state, len(again.events))


asyncio.run(main())
