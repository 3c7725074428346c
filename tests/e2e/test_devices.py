"""Devices: paired with a code, approved by an administrator, sent events that they fetch from any server."""

import json
import re
import threading
import time

import pytest

from harness import PATIENCE, Server


def pair(server, name="phone", **more):
    answer = server.request("POST", "/api/v1/devices/pair", body=json.dumps({"name": name, **more}))
    assert answer.status == 201, answer.text
    return answer.json


def status(server, paired, code=None):
    return server.get(f"/api/v1/devices/pair/{paired['device_id']}?code={code or paired['pairing_code']}")


def paired_device(server, *scopes):
    """Its id and token."""
    paired = pair(server)
    approved = server.api("POST", f"/devices/{paired['device_id']}/approve", {"scopes": list(scopes)})
    assert approved.status == 200 and approved.json["status"] == "approved"
    return paired["device_id"], status(server, paired).json["token"]


def headers(device):
    return {"X-Device-Id": device[0], "X-Device-Token": device[1]}


def poll(server, device, query=""):
    return server.request("GET", "/api/v1/events/poll" + query, headers(device))


def send(server, device, data, kind="note"):
    answer = server.api("POST", f"/devices/{device[0]}/events", {"type": kind, "data": data})
    assert answer.status == 201, answer.text
    return answer.json["id"]


def test_a_device_is_paired_with_its_code_and_gets_its_token_once(server):
    paired = pair(server, public_info={"os": "x", "n": 12345678901234567890})
    assert re.fullmatch(r"[A-Z]{4}-[A-Z]{4}", paired["pairing_code"]) and paired["expires_at"]
    assert status(server, paired).json == {"device_id": paired["device_id"], "status": "pending"}
    shown = server.api("GET", f"/devices/{paired['device_id']}").json
    assert shown["status"] == "pending" and shown["public_info"] == {"os": "x", "n": 12345678901234567890}
    assert server.api("POST", f"/devices/{paired['device_id']}/approve").status == 200
    wordy = paired["pairing_code"].lower().replace("-", "%20")
    first = status(server, paired, wordy).json
    assert first["status"] == "approved" and first["token"].startswith("nd_")
    assert status(server, paired).json == {"device_id": paired["device_id"], "status": "approved"}
    device = (paired["device_id"], first["token"])
    assert poll(server, device).json == {"events": [], "cursor": 0, "dropped": 0}
    assert first["token"] not in server.api("GET", "/devices?limit=1000").text + server.api("GET", "/audit").text


def test_wrong_codes_are_refused_and_after_five_the_right_one_too(server):
    paired = pair(server)
    for _ in range(5):
        assert status(server, paired, "BBBB-BBBB").status == 403
    assert status(server, paired).status == 403
    assert server.get("/api/v1/devices/pair/dev_0000000000000000?code=x").status == 404
    assert server.get(f"/api/v1/devices/pair/{pair(server)['device_id']}").status == 403


def test_a_rejected_device_gets_nothing_and_transitions_are_checked(server):
    paired = pair(server)
    path = f"/devices/{paired['device_id']}"
    assert server.api("POST", path + "/revoke").status == 409
    assert server.api("POST", path + "/reject").json["status"] == "rejected"
    assert status(server, paired).json["status"] == "rejected"
    for verb in ("approve", "reject", "revoke", "rotate"):
        answer = server.api("POST", f"{path}/{verb}")
        assert answer.status == 409 and answer.json["from"] == "rejected", verb
    assert server.api("POST", path + "/events", {"type": "x"}).status == 409
    assert server.api("POST", "/devices/dev_x/approve").status == 404


@pytest.mark.parametrize("body", ['{}', '{"name": ""}', '{"name": 1}', '{"name": "x", "scopes": ["admin"]}', '[]', '{'])
def test_bad_pairings_are_refused(server, body):
    assert server.request("POST", "/api/v1/devices/pair", body=body).status == 400


def test_pairing_is_open_to_all_and_so_has_a_limit(tmp_path):
    with Server(tmp_path) as server:
        got = [server.request("POST", "/api/v1/devices/pair", body='{"name": "x"}').status for _ in range(40)]
        assert got.count(201) in (30, 31) and got[-1] == 429


def test_only_the_token_opens_and_only_what_its_scopes_say(tmp_path):
    with Server(tmp_path) as server:
        device = paired_device(server)
        other = paired_device(server)
        assert poll(server, (device[0], other[1])).status == 401
        assert poll(server, (device[0], "")).status == 401
        assert server.request("GET", "/api/v1/events/poll", {"X-Device-Id": device[0]}).status == 401
        assert server.request("GET", "/api/v1/events/poll").status == 401
        assert server.api("GET", "/events/poll").status == 403, "an administrator is no device"
        assert server.request("GET", "/metrics", headers(device)).status == 403
        path = f"/devices/{device[0]}/scopes"
        assert server.api("PUT", path, {"scopes": ["metrics:read"]}).json["scopes"] == ["metrics:read"]
        assert server.request("GET", "/metrics", headers(device)).status == 200
        assert server.api("PUT", path, {"scopes": []}).status == 200
        assert server.request("GET", "/metrics", headers(device)).status == 403
        assert server.api("PUT", path, {"scopes": ["root"]}).status == 400
        assert server.api("PUT", path, {}).status == 400


def test_revoked_and_rotated_tokens_are_refused_by_every_server_at_once(tmp_path):
    with Server(tmp_path) as first, Server(tmp_path) as second:
        device = paired_device(first)
        for server in (first, second):
            assert poll(server, device).status == 200
        rotated = first.api("POST", f"/devices/{device[0]}/rotate").json
        for server in (second, first):
            assert poll(server, device).status == 401
            assert poll(server, (device[0], rotated["token"])).status == 200
        assert second.api("POST", f"/devices/{device[0]}/revoke").json["status"] == "revoked"
        for server in (first, second):
            assert poll(server, (device[0], rotated["token"])).status == 401


def test_events_are_fetched_in_order_from_any_server_until_they_are_acknowledged(tmp_path):
    with Server(tmp_path) as first, Server(tmp_path) as second:
        device = paired_device(first)
        for i in range(5):
            send((first, second)[i % 2], device, {"n": i})
        for server in (first, second):
            got = poll(server, device, "?limit=3").json
            assert [event["data"]["n"] for event in got["events"]] == [0, 1, 2]
            assert set(got["events"][0]) == {"id", "type", "data", "created_at"}
        rest = poll(second, device, f"?since={got['cursor']}&ack={got['cursor']}").json
        assert [event["data"]["n"] for event in rest["events"]] == [3, 4]
        assert [event["data"]["n"] for event in poll(first, device).json["events"]] == [3, 4]
        assert poll(first, device, f"?ack={rest['cursor']}").json["events"] == []
    with Server(tmp_path) as server:
        assert poll(server, device).json == {"events": [], "cursor": 5, "dropped": 0}


def test_a_poll_waits_for_an_event_that_another_server_is_told_of(tmp_path):
    with Server(tmp_path) as first, Server(tmp_path) as second:
        device = paired_device(first)
        got = []
        waiting = threading.Thread(target=lambda: got.append(poll(second, device, "?wait_ms=25000").json))
        begun = time.monotonic()
        waiting.start()
        send(first, device, "hello")
        waiting.join(PATIENCE)
        assert [event["data"] for event in got[0]["events"]] == ["hello"]
        assert time.monotonic() - begun < 20
        assert poll(second, device, "?wait_ms=1&since=1").json["events"] == []
        for bad in ("wait_ms=-1", "wait_ms=60001", "since=x", "ack=99", "limit=0"):
            assert poll(first, device, "?" + bad).status == 400, bad


def test_without_authentication_a_device_is_still_a_device(tmp_path):
    with Server(tmp_path, "--no-auth") as server:
        paired = pair(server)
        path = f"/api/v1/devices/{paired['device_id']}"
        assert server.request("POST", path + "/approve").status == 200
        device = (paired["device_id"], status(server, paired).json["token"])
        assert server.request("POST", path + "/events", body='{"type": "x"}').status == 201
        assert len(poll(server, device).json["events"]) == 1
        assert poll(server, (device[0], "nd_wrong")).status == 401
        assert server.request("GET", "/api/v1/events/poll").status == 403


def test_devices_are_listed_in_pages(tmp_path):
    with Server(tmp_path) as server:
        ids = sorted([paired_device(server)[0], *(pair(server)["device_id"] for _ in range(4))])
        seen, cursor = [], ""
        while cursor is not None:
            page = server.api("GET", f"/devices?limit=2&cursor={cursor}").json
            seen += [device["device_id"] for device in page["items"]]
            cursor = page["next_cursor"]
        assert seen == ids
