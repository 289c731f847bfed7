from __future__ import annotations

import pytest

from modelyard.local.network.rewrite import own_address, rewrite_env, rewrite_paths

IP = "127.70.128.5"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--host=0.0.0.0", f"--host={IP}"),
        ("0.0.0.0:8443", f"{IP}:8443"),
        ("--upstream=http://127.0.0.1:8080/", f"--upstream=http://{IP}:8080/"),
        ("postgresql://user:pw@localhost:5432/db", f"postgresql://user:pw@{IP}:5432/db"),
        ("localhost", IP),
        ("[::]:9000", f"{IP}:9000"),
        ("::", IP),
        ("curl -s http://localhost/health && echo 127.0.0.1", f"curl -s http://{IP}/health && echo {IP}"),
        ("redis://127.0.0.1:6379,redis://127.0.0.1:6380", f"redis://{IP}:6379,redis://{IP}:6380"),
    ],
)
def test_own_addresses_become_the_pods(text: str, expected: str) -> None:
    assert own_address(text, IP) == expected


@pytest.mark.parametrize(
    "text",
    [
        "0.0.0.0/0",
        "127.0.0.1/8",
        "10.0.0.0.0",
        "my-localhost",
        "localhost.localdomain",
        "127.0.0.11",
        "a::b",
        "127.77.0.4:80",
    ],
)
def test_other_addresses_stay(text: str) -> None:
    assert own_address(text, IP) == text


def test_variables_can_be_kept() -> None:
    env = {"A": "http://localhost:1", "ORIGINS": "localhost:*"}
    assert rewrite_env(env, IP, frozenset({"ORIGINS"})) == {"A": f"http://{IP}:1", "ORIGINS": "localhost:*"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/data", "/vol/d"),
        ("--dir=/data/sub", "--dir=/vol/d/sub"),
        ("sqlite:////data/x.db", "sqlite:////vol/d/x.db"),
        ("/database", "/database"),
        ("/etc/tls/private/tls.key", "/vol/t/tls.key"),
        ("--a=/etc/tls/private/tls.key --b=/data", "--a=/vol/t/tls.key --b=/vol/d"),
    ],
)
def test_mount_paths_become_real_ones(text: str, expected: str) -> None:
    assert rewrite_paths(text, {"/data": "/vol/d", "/etc/tls/private": "/vol/t"}) == expected
