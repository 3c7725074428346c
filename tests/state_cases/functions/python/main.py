"""Carries out the operations a case lists: [[name, argument, …], …], with `function.` or `invocation.` before the name
where it is not session scope. Answers for each {"is": value} or {"refused": code}."""

import json

from nimbus import StateError


def carry_out(state, context, name, arguments):
    scope, _, operation = name.rpartition(".")
    if scope == "context":
        return context[operation]
    return getattr(getattr(state, scope)() if scope else state, operation)(*arguments)


def handle(event, state, context):
    answers = []
    for name, *arguments in event["operations"]:
        try:
            answers.append({"is": carry_out(state, context, name, arguments)})
        except StateError as error:
            conflict = {} if error.current_version is None else {"current_version": error.current_version}
            answers.append({"refused": error.code, **conflict})
    if event["fails"]:
        raise RuntimeError(json.dumps(answers))
    return event.get("returns", answers)
