"""The audit log: every administrative act and every refusal."""

import collections

from harness import Server

CODE = "def handle(event, state):\n    return state.incr('n')\n"


def audit(server, query=""):
    answer = server.api("GET", "/audit?limit=1000" + query)
    assert answer.status == 200, answer.text
    return answer.json["items"]


def test_acts_are_recorded_with_who_did_what_and_how_it_ended(tmp_path):
    with Server(tmp_path) as server:
        server.deploy("cart", CODE)
        server.api("PUT", "/functions/broken", {"runtime": "python", "files": {"main.py": "("}})
        server.invoke("cart", session="s")
        server.api("PUT", "/functions/cart/state/s/n", 5)
        server.api("DELETE", "/functions/cart/sessions/s")
        server.api("POST", "/functions/cart/rollback", {"version": 1})
        key = server.api("POST", "/keys", {"name": "deploys", "scopes": ["functions:write"]}).json
        with_key = {"Authorization": "Bearer " + key["key"]}
        deleted = server.request("DELETE", "/api/v1/functions/cart", with_key)
        assert deleted.status == 204
        server.api("DELETE", f"/keys/{key['id']}")
        entries = audit(server, "&kind=act")
        assert [(e["action"], e["target"], e["status"], e["outcome"]) for e in reversed(entries)] == [
            ("putFunction", "/api/v1/functions/cart", 201, "succeeded"),
            ("putFunction", "/api/v1/functions/broken", 422, "failed"),
            ("putFunctionsIdStateSessionKeyKey", "/api/v1/functions/cart/state/s/n", 200, "succeeded"),
            ("deleteFunctionsIdSessionsSessionKey", "/api/v1/functions/cart/sessions/s", 204, "succeeded"),
            ("rollbackFunction", "/api/v1/functions/cart/rollback", 200, "succeeded"),
            ("createKey", f"/api/v1/keys/{key['id']}", 201, "succeeded"),
            ("deleteFunction", "/api/v1/functions/cart", 204, "succeeded"),
            ("deleteKey", f"/api/v1/keys/{key['id']}", 204, "succeeded"),
        ]
        assert all(e["remote_address"] == "127.0.0.1" and e["time"] for e in entries)
        by_key = audit(server, f"&principal={key['id']}")
        assert [e["request_id"] for e in by_key] == [deleted.headers["Nimbus-Request-Id"]]
        assert by_key[0]["principal_name"] == "deploys"
        assert {e["principal"] for e in entries} == {"administrator", key["id"]}
        assert entries[-2]["code"] == "unprocessable"


def test_refusals_are_recorded_before_they_are_answered(tmp_path):
    with Server(tmp_path) as server:
        key = server.api("POST", "/keys", {"name": "reader", "scopes": ["metrics:read"]}).json
        refused = [
            server.get("/api/v1/functions"),
            server.get("/api/v1/functions/cart", key="nk_wrong"),
            server.get("/api/v1/functions/cart/versions", key=key["key"]),
        ]
        entries = audit(server, "&outcome=refused")
        assert [e["request_id"] for e in reversed(entries)] == [a.headers["Nimbus-Request-Id"] for a in refused]
        assert [(e["status"], e["code"], e["principal"]) for e in reversed(entries)] == [
            (401, "unauthenticated", None), (401, "unauthenticated", None), (403, "forbidden", key["id"]),
        ]
        assert [e["action"] for e in reversed(entries)] == ["listFunctions", "showFunction", "listVersions"]


def test_a_flood_of_refusals_is_counted_and_does_not_fill_the_record(tmp_path):
    with Server(tmp_path) as server:
        server.deploy("cart", CODE)
        connection = server.connect()
        for _ in range(500):
            connection.request("GET", "/api/v1/functions", headers={"Authorization": "Bearer nk_guess"})
            answer = connection.getresponse()
            assert answer.status == 401
            answer.read()
        entries = audit(server, "&kind=refusal")
        assert sum(e["count"] for e in entries) == 500
        assert len(entries) < 100
        assert any(e["action"] == "manyRefusals" and e["remote_address"] == "127.0.0.1" for e in entries)
        assert len(audit(server, "&kind=act")) == 1
        text = server.get("/metrics", key=server.key).text
        assert 'nimbus_auth_refused_total{code="unauthenticated"} 500\n' in text


def test_the_record_survives_a_kill_and_is_read_in_pages(tmp_path):
    with Server(tmp_path) as server:
        for i in range(7):
            server.api("DELETE", f"/functions/f{i}")
            server.get("/api/v1/functions")
    with Server(tmp_path) as server:
        seen, cursor = [], ""
        while cursor is not None:
            page = server.api("GET", f"/audit?limit=3&cursor={cursor}").json
            seen += page["items"]
            cursor = page["next_cursor"]
        assert len(seen) == 14
        assert [e["time"] for e in seen] == sorted((e["time"] for e in seen), reverse=True)
        assert collections.Counter(e["kind"] for e in seen) == {"act": 7, "refusal": 7}
        assert len({e["id"] for e in seen}) == 14
        assert server.api("GET", "/audit?cursor=zz").status == 400
        assert server.api("GET", "/audit?since=yesterday").status == 400
        assert audit(server, "&since=2100-01-01T00:00:00Z") == []
        assert len(audit(server, "&until=2100-01-01T00:00:00Z")) == 14


def test_old_entries_go(tmp_path):
    with Server(tmp_path, "--set", "audit.max_entries=100") as server:
        for i in range(300):
            server.api("DELETE", f"/functions/f{i}")
        kept = [e["target"] for e in audit(server, "&kind=act")]
        assert 100 <= len(kept) < 200
        assert kept[0] == "/api/v1/functions/f299"


def test_without_authentication_acts_are_anyones(tmp_path):
    with Server(tmp_path, "--no-auth") as server:
        assert server.request("DELETE", "/api/v1/functions/x").status == 404
        entries = server.request("GET", "/api/v1/audit").json["items"]
        assert [(e["principal"], e["status"]) for e in entries] == [("anyone", 404)]
