def handle(event, state):
    """Counts the visits of this session, and those of all sessions together."""
    return {"visits": state.incr("visits"), "everyone": state.function().incr("visits")}
