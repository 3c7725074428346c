KEPT = 20  # messages


def ask_model(history):
    """Put the call of a model here; it gets the whole conversation."""
    said = [message["content"] for message in history if message["role"] == "user"]
    return f"You said: {said[-1]}. That was message {len(said)} that I remember."


def handle(event, state):
    history = state.get("history", [])
    history.append({"role": "user", "content": event["message"]})
    answer = ask_model(history)
    history.append({"role": "assistant", "content": answer})
    state.set("history", history[-KEPT:])
    return {"answer": answer}
