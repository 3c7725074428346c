import time


def handle(event, state):
    if event["operation"] != "five":
        return state.incr("n")
    now = int(time.time() * 1000)
    for i in range(5):
        state.set(f"step{i}", now)
    return 5
