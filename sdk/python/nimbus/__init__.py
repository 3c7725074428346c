"""What functions import: `from nimbus import state, events, log, send`.

state   the state of the call that is running; session scope unless another is asked for
State   its class: State.session(), State.function(), State.invocation()
events  the event log of the call's session: events.append(content=...), events.recent(10)
log     log.info("paid", order=17) writes one line to the function's log
send    send("mailer", "alice", {"order": 17}) has another function called, once this call has succeeded
"""

from nimbus._errors import StateError, VersionConflict
from nimbus._events import Events, events
from nimbus._log import log
from nimbus._send import send
from nimbus._state import State, state

__all__ = ["Events", "State", "StateError", "VersionConflict", "events", "log", "send", "state"]
__version__ = "0.1.0"
