"""Two servers on one data directory: whoever calls a session takes it over, and the other is told."""

from harness import Server


def test_a_session_that_two_servers_call_in_turn_counts_every_answer_once(tmp_path):
    code = "def handle(event, state):\n    return state.incr('n')\n"
    with Server(tmp_path) as first:
        first.deploy("turns", code)
        with Server(tmp_path) as second:
            answers = [server.invoke("turns", None, "s") for _ in range(20) for server in (first, second)]
    acknowledged = [answer for answer in answers if answer.status == 200]
    assert {answer.json["code"] for answer in answers if answer.status != 200} == {"fenced"}
    assert [answer.json["body"] for answer in acknowledged] == list(range(1, len(acknowledged) + 1))
    numbers = [int(answer.headers["Nimbus-Session-Seq"]) for answer in acknowledged]
    assert numbers == sorted(set(numbers))
    assert len(acknowledged) >= 20, "a server that was fenced goes on with its next call"
