"""Rate limits: exact to the request, over all servers that share a store."""

import concurrent.futures
import json
import time

from harness import PATIENCE, Server

CODE = "def handle(event):\n    return 1\n"


def make(server, **settings):
    answer = server.api("POST", "/keys", {"name": "limited", "scopes": ["invoke", "metrics:read"], **settings})
    assert answer.status == 201, answer.text
    return answer.json


def statuses(servers, key, count):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda i: servers[i % len(servers)].get("/metrics", key=key).status, range(count))
        return list(answers)


def test_two_servers_let_in_exactly_what_is_allowed(tmp_path):
    with Server(tmp_path) as first, Server(tmp_path) as second:
        # One more every 12 minutes: what comes back while the test runs is nothing.
        key = make(first, rate_limit={"requests": 50, "window_s": 36000})["key"]
        got = statuses([first, second], key, 120)
        assert got.count(200) == 50 and got.count(429) == 70


def test_answers_say_how_the_limit_stands(tmp_path):
    with Server(tmp_path) as server:
        key = make(server, rate_limit={"requests": 2, "window_s": 3600})["key"]
        answer = server.get("/metrics", key=key)
        assert answer.headers["RateLimit-Limit"] == "2"
        assert answer.headers["RateLimit-Remaining"] == "1"
        assert 0 < int(answer.headers["RateLimit-Reset"]) <= 1800
        server.get("/metrics", key=key)
        for _ in range(3):  # the second and third are known to be too early without a look at the store
            answer = server.get("/metrics", key=key)
            assert answer.status == 429 and answer.json["code"] == "rate_limited"
            assert answer.headers["RateLimit-Remaining"] == "0"
            assert 1700 < int(answer.headers["Retry-After"]) <= 1800
            assert 0 <= int(answer.headers["Retry-After"]) * 1000 - answer.json["retry_after_ms"] < 1000
        text = server.get("/metrics", key=server.key).text
        assert 'nimbus_rate_limit_taken_total{per="key"} 2\n' in text
        assert 'nimbus_rate_limit_refused_total{per="key"} 3\n' in text


def test_whoever_waits_as_told_is_let_in(tmp_path):
    with Server(tmp_path) as server:
        key = make(server, rate_limit={"requests": 60, "burst": 1})["key"]
        assert server.get("/metrics", key=key).status == 200
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = server.get("/metrics", key=key)
            if answer.status == 200:
                break
            assert answer.status == 429 and time.monotonic() < deadline
            assert answer.json["retry_after_ms"] <= 1001


def test_keys_have_600_a_minute_and_the_administrator_no_limit(tmp_path):
    with Server(tmp_path) as server:
        made = make(server)
        assert made["rate_limit"] == 600
        assert server.get("/metrics", key=made["key"]).headers["RateLimit-Limit"] == "600"
        assert "RateLimit-Limit" not in server.get("/metrics", key=server.key).headers
        free = make(server, rate_limit=0)
        assert free["rate_limit"] == 0
        assert "RateLimit-Limit" not in server.get("/metrics", key=free["key"]).headers


def test_the_default_can_be_set_and_turned_off(tmp_path):
    with Server(tmp_path, "--set", "rate_limit.per_key=3") as server:
        key = make(server)["key"]
        assert statuses([server], key, 3) == [200] * 3
        assert server.get("/metrics", key=key).status == 429
    with Server(tmp_path, "--set", "rate_limit.per_key=0") as server:
        assert "RateLimit-Limit" not in server.get("/metrics", key=key).headers


def test_functions_and_addresses_can_be_limited_for_everybody(tmp_path):
    with Server(tmp_path, "--set", "rate_limit.per_function=2") as server:
        server.deploy("one", CODE)
        server.deploy("two", CODE)
        assert [server.invoke("one").status for _ in range(3)] == [200, 200, 429]
        assert server.invoke("two").status == 200
        assert server.invoke("one").json["per"] == "function"
    with Server(tmp_path, "--set", "rate_limit.per_ip=3") as server:
        assert [server.get("/metrics", key="nk_wrong").status for _ in range(4)] == [401, 401, 401, 429]
        assert server.get("/metrics", key=server.key).json["per"] == "address"
        assert server.get("/health").status == 200


def test_what_is_refused_for_its_scope_costs_no_unit(tmp_path):
    with Server(tmp_path) as server:
        key = make(server, rate_limit={"requests": 1, "window_s": 3600})["key"]
        for _ in range(3):
            assert server.get("/api/v1/functions", key=key).status == 403
        assert server.get("/metrics", key=key).status == 200


def test_without_authentication_nothing_is_limited(tmp_path):
    with Server(tmp_path, "--no-auth", "--set", "rate_limit.per_ip=1", "--set", "rate_limit.per_function=1") as server:
        body = json.dumps({"runtime": "python", "files": {"main.py": CODE}})
        assert server.request("PUT", "/api/v1/functions/one", body=body).status == 201
        for _ in range(3):
            assert server.request("POST", "/api/v1/functions/one/invoke", body="{}").status == 200
