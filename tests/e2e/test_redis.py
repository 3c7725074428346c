"""A server whose store is a real Redis."""

import time

import pytest
from harness import Server, nimbus
from redis_server import EncryptedRedis, Redis, Sentinel, free_port


def serve(directory, *arguments, **options):
    """A server with a directory of its own, as on another machine."""
    directory.mkdir(exist_ok=True)
    return Server(directory, *arguments, **options)


COUNTER = "def handle(event, state):\n    return state.incr('n')\n"


@pytest.fixture
def redis(tmp_path):
    with Redis(tmp_path / "redis", "--appendonly", "yes", "--appendfsync", "always") as server:
        yield server


def test_what_was_answered_is_there_after_kill_9(tmp_path, redis):
    with serve(tmp_path / "one", "--store", redis.url) as first:
        assert first.get("/health/ready").json["store"] == {"backend": "redis", "durability": "disk"}
        first.deploy("counter", COUNTER)
        assert [first.invoke("counter", None, "s").json["body"] for _ in range(3)] == [1, 2, 3]
        key = first.key
        first.process.kill()
    with serve(tmp_path / "one", "--store", redis.url) as second:
        assert second.key == key
        assert second.invoke("counter", None, "s").json["body"] == 4
        assert second.api("GET", "/functions/counter/state/s").status == 200


def test_the_first_instance_makes_the_key_and_others_accept_it(tmp_path, redis):
    with serve(tmp_path / "one", "--store", redis.url) as first:
        with serve(tmp_path / "two", "--store", redis.url) as second:
            assert not (second.data / "admin.key").exists()
            assert "shown only this once" not in second.log_text()
            assert second.get("/api/v1/functions", key=first.key).status == 200
            assert second.get("/api/v1/functions", key="nk_" + "0" * 50).status == 401
        assert first.key not in redis.ask("HGETALL", "admin:{administrator}"), "only its hash is kept"


def test_calls_fail_in_time_while_redis_is_away_and_go_on_when_it_is_back(tmp_path, redis):
    with serve(tmp_path / "one", "--store", redis.url) as server:
        server.deploy("counter", COUNTER)
        assert server.invoke("counter", None, "s").json["body"] == 1
        redis.kill()
        begun = time.monotonic()
        answer = server.invoke("counter", None, "other")
        assert answer.status == 503 and answer.json["code"] == "unavailable"
        assert time.monotonic() - begun < 5
        redis.start()
        deadline = time.monotonic() + 60
        while (answer := server.invoke("counter", None, "s")).status != 200:
            assert time.monotonic() < deadline, answer.text
        assert answer.json["body"] >= 2


def test_the_older_names_of_the_settings_name_the_same_store(tmp_path):
    with Redis(tmp_path / "redis", "--requirepass", "hunter2") as redis:
        settings = [f"state.redis.addr=127.0.0.1:{redis.port}", "state.redis.password=hunter2", "state.redis.db=2"]
        with serve(tmp_path / "one", *(word for s in settings for word in ("--set", s))) as server:
            assert server.get("/health/ready").json["store"] == {"backend": "redis", "durability": "memory"}


def test_a_password_may_stand_in_a_file(tmp_path):
    with Redis(tmp_path / "redis", "--user", "nimbus", "on", ">hunter2", "~*", "&*", "+@all") as redis:
        (tmp_path / "password").write_text("hunter2\n")
        with serve(tmp_path / "one", "--store", redis.url, "--set", "gateway.store.redis.username=nimbus",
                    "--set", f"gateway.store.redis.password_file={tmp_path / 'password'}") as server:
            assert server.get("/health/ready").json["ready"]


def test_a_redis_that_throws_data_away_is_refused(tmp_path):
    with Redis(tmp_path / "redis", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru") as redis:
        done = nimbus("serve", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "d"), "--store", redis.url)
        assert done.returncode == 1
        assert "noeviction" in done.stderr


def test_a_redis_that_is_not_there_is_told(tmp_path):
    done = nimbus("serve", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "d"), "--store",
                  f"redis://127.0.0.1:{free_port()}")
    assert done.returncode == 1
    assert "is away" in done.stderr


@pytest.mark.parametrize("store", ["redis://", "redis://h:0", "redis+cluster://h/1"])
def test_an_address_that_is_none_is_refused_before_anything_is_done(tmp_path, store):
    done = nimbus("serve", "--data", str(tmp_path / "d"), "--store", store)
    assert done.returncode == 2
    assert "gateway.store.redis.url" in done.stderr
    assert not (tmp_path / "d").exists()


def test_the_store_may_be_a_cluster(tmp_path):
    with Redis(tmp_path / "redis", "--cluster-enabled", "yes", "--cluster-port", str(free_port())) as redis:
        redis.ask("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
        with serve(tmp_path / "one", "--store", f"redis+cluster://127.0.0.1:1,127.0.0.1:{redis.port}") as server:
            server.deploy("counter", COUNTER)
            assert [server.invoke("counter", None, "s").json["body"] for _ in range(3)] == [1, 2, 3]
        assert redis.ask("HGET", "state:{session:counter:s}", "n").endswith(" 3")


def test_redis_may_be_spoken_to_in_tls(tmp_path):
    with EncryptedRedis(tmp_path / "redis") as redis:
        with serve(tmp_path / "one", "--store", redis.url, env={"SSL_CERT_FILE": str(redis.authority)}) as server:
            assert server.get("/health/ready").json["store"]["backend"] == "redis"
        done = nimbus("serve", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "d"), "--store", redis.url)
        assert done.returncode == 1
        assert "certificate verify failed" in done.stderr


def test_sentinels_tell_where_the_primary_is(tmp_path):
    with Redis(tmp_path / "a") as first, Redis(tmp_path / "b", "--replicaof", f"127.0.0.1 {first.port}") as second:
        deadline = time.monotonic() + 60
        while "state=online" not in first.ask("INFO", "replication"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with Sentinel(tmp_path / "sentinel", first) as sentinel:
            while "num-slaves\n1" not in sentinel.ask("SENTINEL", "MASTER", "primary"):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            with serve(tmp_path / "one", "--store", sentinel.url, "--set",
                        "gateway.store.redis.sentinel=primary") as server:
                server.deploy("counter", COUNTER)
                assert server.invoke("counter", None, "s").json["body"] == 1
                while "slave0" in first.ask("INFO", "replication") and int(first.ask("WAIT", "1", "1000")) < 1:
                    assert time.monotonic() < deadline
                first.kill()
                deadline = time.monotonic() + 90
                while server.invoke("counter", None, "other").status != 200:
                    assert time.monotonic() < deadline, server.log_text()
                assert "role:master" in second.ask("INFO", "replication")
                assert server.invoke("counter", None, "s").json["body"] == 2
