import json
import socket

import pytest

from harness import Server


def test_health_has_exactly_its_fields(server):
    answer = server.get("/health")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/json"
    body = answer.json
    assert set(body) == {
        "ok", "version", "instanceId", "uptime", "sessions", "connectedChannels",
    }
    assert body["ok"] is True
    assert isinstance(body["uptime"], int)
    assert isinstance(body["sessions"], int)
    assert body["connectedChannels"] == []


def test_ready_says_what_is_kept_where(server):
    body = server.get("/health/ready").json
    assert body["ready"] is True
    assert set(body["store"]) == {"backend", "durability"}


def test_every_answer_has_an_id_of_its_own(server):
    ids = {server.get(path).headers["Nimbus-Request-Id"] for path in ("/health", "/nope", "/")}
    assert len(ids) == 3 and None not in ids


def test_metrics_tell_of_requests_and_of_the_process(server):
    server.get("/health")
    server.get("/nope")
    answer = server.get("/metrics", key=server.key)
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    for name in (
        "nimbus_http_requests_total", "nimbus_http_request_duration_seconds_bucket",
        "nimbus_http_connections", "nimbus_http_sent_bytes_total", "nimbus_build_info",
        "process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds",
        "process_start_time_seconds", "process_threads",
    ):
        assert f"\n{name}" in "\n" + answer.text
    assert 'nimbus_http_requests_total{method="GET",route="none",status="404"}' in answer.text


def test_paths_of_callers_never_become_labels(server):
    server.get("/very-own-path")
    assert "very-own-path" not in server.get("/metrics", key=server.key).text


def routes(server):
    """Every (method, path, operation) of the OpenAPI document."""
    for path, item in server.get("/openapi.json").json["paths"].items():
        for method, operation in item.items():
            if method in ("get", "put", "post", "patch", "delete"):
                yield method.upper(), path, operation


def test_the_document_lists_every_route_there_is(server):
    document = server.get("/openapi.json").json
    assert document["openapi"].startswith("3.1")
    assert {path for _, path, _ in routes(server)} >= {
        "/", "/docs", "/openapi.json", "/metrics", "/health", "/health/live", "/health/ready",
    }
    names = [operation["operationId"] for _, _, operation in routes(server)]
    assert len(names) == len(set(names))
    for method, path, _ in routes(server):
        if "{" not in path:
            assert server.request(method, path).status not in (404, 405), path


PUBLIC = {
    "/", "/docs", "/docs/docs.js", "/docs/docs.css", "/openapi.json",
    "/health", "/health/live", "/health/ready",
}


# Where a device asks to be let in: open to everyone, and wants more than nothing.
PAIRING = {"/api/v1/devices/pair", "/api/v1/devices/pair/{device_id}"}


def test_without_a_key_only_public_routes_answer(server):
    for method, path, operation in routes(server):
        if path in PAIRING:
            assert operation["security"] == []
            continue
        status = server.request(method, path.replace("{", "").replace("}", "")).status
        if path in PUBLIC:
            assert status == 200, path
            assert operation["security"] == []
        else:
            assert status == 401, path
            assert operation["security"] != []


def test_pages_bring_all_they_need(server):
    for path, kind in (
        ("/", "text/html"), ("/docs", "text/html"),
        ("/docs/docs.js", "text/javascript"), ("/docs/docs.css", "text/css"),
    ):
        page = server.get(path)
        assert page.status == 200
        assert page.headers["Content-Type"].startswith(kind)
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]
        assert "http://" not in page.text and "https://" not in page.text


def test_head_is_get_without_the_body(server):
    get, head = server.get("/docs"), server.request("HEAD", "/docs")
    assert head.status == 200 and head.body == b""
    assert head.headers["Content-Length"] == get.headers["Content-Length"]


def test_what_is_not_there_is_a_problem(server):
    answer = server.get("/nope")
    assert answer.status == 404
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem = answer.json
    assert problem["code"] == "not_found" and problem["status"] == 404
    assert problem["request_id"] == answer.headers["Nimbus-Request-Id"]
    assert {"type", "title", "detail"} <= set(problem)


def test_a_method_that_is_not_there_names_those_that_are(server):
    answer = server.request("POST", "/health")
    assert answer.status == 405
    assert answer.json["code"] == "method_not_allowed"
    assert "GET" in answer.headers["Allow"]


def test_asked_for_every_request_is_logged(tmp_path):
    with Server(tmp_path, "--set", "server.access_log=true", "--set", "log.level=warn") as server:
        request_id = server.get("/health?secret=1").headers["Nimbus-Request-Id"]
        server.get("/nope")
        server.stop()
        lines = [json.loads(line) for line in server.log_text().splitlines() if line.startswith("{")]
    assert [(line["method"], line["path"], line["status"]) for line in lines] == [
        ("GET", "/health", 200), ("GET", "/nope", 404),
    ]
    assert lines[0]["request_id"] == request_id
    assert lines[0]["peer"] == "127.0.0.1"
    assert lines[0]["duration_us"] >= 0


@pytest.mark.parametrize(
    "setting, sent",
    [
        ("header_timeout_ms", b"GET /health HTTP/1.1\r\nX-Half: "),
        ("body_timeout_ms", b"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"),
        ("body_total_timeout_ms", b"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"),
    ],
)
def test_half_a_request_is_answered_408_in_time(tmp_path, setting, sent):
    with Server(tmp_path, "--set", f"server.{setting}=100") as server:
        with socket.create_connection((server.host, server.port), 5.0) as slow:
            slow.sendall(sent)
            assert slow.recv(12) == b"HTTP/1.1 408"
