import ssl
import subprocess

import pytest

from harness import PATIENCE, Server, nimbus


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tls")
    cert, key = directory / "cert.pem", directory / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "1", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True, timeout=PATIENCE,
    )
    return cert, key


def options(cert, key):
    return ["--set", f"server.tls.cert_file={cert}", "--set", f"server.tls.key_file={key}"]


def test_speaks_https(tmp_path, certificate):
    trust = ssl.create_default_context(cafile=str(certificate[0]))
    with Server(tmp_path, *options(*certificate), tls=trust) as server:
        assert server.ready_line.startswith("nimbus ready on https://")
        assert server.get("/health").json["ok"] is True
        assert server.get("/metrics", key=server.key).status == 200
        assert server.stop()[0] == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # old is the point
def test_old_versions_of_tls_are_refused(tmp_path, certificate):
    trust = ssl.create_default_context(cafile=str(certificate[0]))
    trust.set_ciphers("ALL:@SECLEVEL=0")
    trust.minimum_version = ssl.TLSVersion.TLSv1
    trust.maximum_version = ssl.TLSVersion.TLSv1_1
    with Server(tmp_path, *options(*certificate), tls=trust) as server:
        with pytest.raises(ssl.SSLError):
            server.get("/health")


def test_an_idle_connection_does_not_delay_the_end(tmp_path, certificate):
    trust = ssl.create_default_context(cafile=str(certificate[0]))
    with Server(tmp_path, *options(*certificate), "--set", "server.drain_ms=1000",
                tls=trust) as server:
        connection = server.connect()
        connection.request("GET", "/health")
        connection.getresponse().read()
        code, seconds = server.stop()
        assert code == 0 and seconds < 2
        connection.close()


def test_files_that_cannot_be_used_are_named(tmp_path, certificate):
    cert, key = certificate
    for pair in ((tmp_path / "none.pem", key), (cert, tmp_path / "none.pem"), (key, cert)):
        done = nimbus("serve", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "d"),
                      *options(*pair))
        assert done.returncode == 1
        assert ".pem" in done.stderr
        assert done.stdout == ""
