"""How our programs read the arguments and variables of the images they stand in for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from modelyard.programs import access_proxy, postgres, s3


def test_s3_takes_minios_arguments_and_credentials() -> None:
    env = {"MINIO_ROOT_USER": "me", "MINIO_ROOT_PASSWORD": "pw"}
    found = s3.read_settings(["server", "/buckets", "--console-address", ":9001", "--address", ":9999"], env)
    assert (found.directory, found.port, found.keys) == ("/buckets", 9999, [("me", "pw")])
    assert s3.read_settings([], {}).keys == [("minioadmin", "minioadmin")]


def test_s3_takes_seaweeds_arguments_and_configuration(tmp_path: Path) -> None:
    config = tmp_path / "s3.json"
    config.write_text(json.dumps({"identities": [{"credentials": [{"accessKey": "a", "secretKey": "b"}]}]}))
    argv = ["server", "-dir=/data", "-s3", "-filer", "-master.volumePreallocate=false", f"-s3.config={config}",
            "-s3.cert.file=/tls/tls.crt", "-s3.key.file=/tls/tls.key", "-s3.port.https=8334"]  # fmt: skip
    found = s3.read_settings(argv, {})
    assert (found.directory, found.port, found.keys, found.https_port) == ("/data", 8333, [("a", "b")], 8334)
    argv = s3.program(found, "127.1.1.1", "/tmp/x")
    assert argv[3:9] == ["http", "127.1.1.1", "8334", "/tls/tls.crt", "/tls/tls.key", "127.1.1.1:8333"]
    assert argv[9:14] == ["rclone", "serve", "s3", "--addr", "127.1.1.1:8333"]


@pytest.mark.parametrize("option", ["--certs-dir={}", "--certs-dir {}", "-S {}"])
def test_s3_speaks_https_alone_where_minio_finds_its_certificate(tmp_path: Path, option: str) -> None:
    argv = ["server", *option.format(tmp_path).split(), "/data", "--address", ":9000"]
    (tmp_path / "public.crt").write_text("certificate")
    plain = s3.program(s3.read_settings(argv, {}), "127.1.1.1", "/tmp/x")
    assert plain[:5] == ["rclone", "serve", "s3", "--addr", "127.1.1.1:9000"], "as MinIO: both files, or none"
    (tmp_path / "private.key").write_text("key")
    found = s3.read_settings(argv, {})
    assert found.directory == "/data"
    secure = s3.program(found, "127.1.1.1", "/tmp/x")
    assert secure[3:8] == ["http", "127.1.1.1", "9000", str(tmp_path / "public.crt"), str(tmp_path / "private.key")]
    assert not [word for word in secure if word == "127.1.1.1:9000"], "nothing listens without TLS"
    assert secure[8] == "unix:///tmp/x/s3"


def test_s3_looks_for_minios_certificate_in_its_home(tmp_path: Path) -> None:
    certificates = tmp_path / ".minio" / "certs"
    certificates.mkdir(parents=True)
    for name in ("public.crt", "private.key"):
        (certificates / name).write_text("x")
    assert s3.read_settings(["server", "/data"], {"HOME": str(tmp_path)}).https_port == 9000


def test_postgres_reads_the_official_variables(tmp_path: Path) -> None:
    (tmp_path / "pw").write_text("hush\n")
    env = {"POSTGRES_USER": "ml", "POSTGRES_PASSWORD_FILE": str(tmp_path / "pw"), "PGDATA": str(tmp_path / "d")}
    found = postgres.read_settings(env)
    assert (found.superuser, found.superuser_password, found.database) == ("ml", "hush", "ml")
    assert found.directory == tmp_path / "d"


def test_postgres_reads_red_hats_variables() -> None:
    env = {
        "POSTGRESQL_USER": "u",
        "POSTGRESQL_PASSWORD": "p",
        "POSTGRESQL_DATABASE": "d",
        "POSTGRESQL_ADMIN_PASSWORD": "a",
    }
    found = postgres.read_settings(env)
    assert (found.superuser, found.superuser_password, found.user, found.database) == ("postgres", "a", "u", "d")
    assert str(found.directory) == "/var/lib/pgsql/data/userdata"


@pytest.mark.parametrize("env", [{"PGDATA": "/nonexistent"}, {"POSTGRESQL_USER": "u"}])
def test_postgres_without_a_password_says_which_variable_is_missing(env: dict[str, str]) -> None:
    with pytest.raises(SystemExit, match="PASSWORD"):
        postgres.read_settings(env)


def test_postgres_with_tls_is_behind_what_speaks_it(tmp_path: Path) -> None:
    settings = postgres.read_settings({"POSTGRES_PASSWORD": "p", "PGDATA": "/data"})
    plain = postgres.program(settings, "127.1.1.1", ["-c", "max_connections=7"], str(tmp_path))
    assert plain == [
        "postgres",
        "-D",
        "/data",
        "-h",
        "127.1.1.1",
        "-c",
        "unix_socket_directories=",
        "-c",
        "max_connections=7",
    ]
    arguments = ["-c", "ssl=on", "--ssl-cert-file=/ssl/server.crt", "-cmax_connections=7", "-p", "5433", "-d", "1"]
    argv = postgres.program(settings, "127.1.1.1", arguments, str(tmp_path))
    assert argv[3:9] == [
        "postgres", "127.1.1.1", "5433", "/ssl/server.crt", "/data/server.key", f"unix://{tmp_path}/.s.PGSQL.5433",
    ]  # fmt: skip
    assert argv[9:] == [
        "postgres", "-D", "/data", "-d", "1", "--max_connections=7", "--port=5433",
        f"--unix_socket_directories={tmp_path}", "--listen_addresses=", f"--hba_file={tmp_path}/pg_hba.conf",
    ]  # fmt: skip
    rules = (tmp_path / "pg_hba.conf").read_text()
    assert rules == "local all all scram-sha-256\n", "who comes through the front needs the password"


def test_names_and_literals_are_quoted() -> None:
    assert postgres.quoted('a"b') == '"a""b"'
    assert postgres.literal("it's") == "'it''s'"


def test_the_proxy_takes_the_operators_arguments() -> None:
    found = access_proxy.parse([
        "--secure-listen-address=0.0.0.0:8443", "--upstream=http://127.0.0.1:8080/", "--logtostderr=true", "--v=0",
        "--config-file=/c.yaml", "--tls-cert-file=/c", "--tls-private-key-file=/k", "--proxy-endpoints-port=8888",
        "--ignore-paths=/healthz,/livez",
    ])  # fmt: skip
    assert (found.proxy_endpoints_port, found.ignore_paths) == (8888, ["/healthz", "/livez"])


def test_the_proxy_listens_on_the_pods_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELYARD_POD_IP", "127.5.5.5")
    assert access_proxy.address(":8443") == ("127.5.5.5", 8443)
    assert access_proxy.address("127.1.1.1:1") == ("127.1.1.1", 1)


async def test_verdicts_are_kept_for_ten_seconds() -> None:
    now, asked = [0.0], list[int]()

    async def ask() -> bool:
        asked.append(1)
        return True

    verdicts = access_proxy.Verdicts(lambda: now[0])
    for moment in (0.0, 9.0, 11.0):
        now[0] = moment
        assert await verdicts.get("k", ask)
    assert len(asked) == 2
