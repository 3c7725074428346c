"""What functions import: `from nimbus import state, log`.

state   the state of the call that is running; session scope unless another is asked for
State   its class: State.session(), State.function(), State.invocation()
log     log.info("paid", order=17) writes one line to the function's log
"""

from nimbus._errors import StateError, VersionConflict
from nimbus._log import log
from nimbus._state import State, state

__all__ = ["State", "StateError", "VersionConflict", "log", "state"]
__version__ = "0.1.0"
