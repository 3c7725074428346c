"""Two servers on one data directory that call one session in turn."""

from harness import Server

CODE = "def handle(event, state):\n    return state.incr('n')\n"


def in_turn(directory, *arguments):
    with Server(directory, *arguments) as first:
        first.deploy("turns", CODE)
        with Server(directory, *arguments) as second:
            return [server.invoke("turns", None, "s") for _ in range(20) for server in (first, second)]


def test_whoever_is_asked_the_sessions_owner_answers(tmp_path):
    answers = in_turn(tmp_path, "--set", "cluster.ownership=on")
    assert [answer.status for answer in answers] == [200] * 40
    assert [answer.json["body"] for answer in answers] == list(range(1, 41))
    assert [int(answer.headers["Nimbus-Session-Seq"]) for answer in answers] == list(range(1, 41))
    assert len({answer.headers["Nimbus-Node"] for answer in answers}) == 1


def test_without_owners_whoever_calls_takes_it_over_and_the_other_is_told(tmp_path):
    answers = in_turn(tmp_path)
    acknowledged = [answer for answer in answers if answer.status == 200]
    assert {answer.json["code"] for answer in answers if answer.status != 200} == {"fenced"}
    assert [answer.json["body"] for answer in acknowledged] == list(range(1, len(acknowledged) + 1))
    numbers = [int(answer.headers["Nimbus-Session-Seq"]) for answer in acknowledged]
    assert numbers == sorted(set(numbers))
    assert len(acknowledged) >= 20, "a server that was fenced goes on with its next call"
