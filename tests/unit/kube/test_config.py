"""Which cluster is meant, and as whom: kubeconfig files, the pod's service account, plugins."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from modelyard.kube import auth
from modelyard.kube.auth import Credential, Files, Plugin, PluginCredentials
from modelyard.kube.config import ConfigError, Target, resolve
from modelyard.kube.errors import Unreachable


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def write(path: Path, *, cluster: Any = None, user: Any = None, context: str = "dev", **extra: Any) -> Path:
    """A kubeconfig with one context, cluster and user of the same name."""
    config = {
        "current-context": context,
        "contexts": [{"name": context, "context": {"cluster": context, "user": context, "namespace": "team"}}],
        "clusters": [{"name": context, "cluster": {"server": "https://10.0.0.1:6443"} | (cluster or {})}],
        "users": [{"name": context, "user": user or {}}],
    }
    path.write_text(yaml.safe_dump(config | extra))
    return path


def resolved(path: Path, context: str | None = None, **env: str) -> Target:
    return resolve(path, context, environment=env)


def test_context_gives_endpoint_namespace_and_credentials(tmp_path: Path) -> None:
    cluster = {
        "server": "https://api.example.org:6443/",
        "certificate-authority-data": encoded("CA"),
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy:3128",
    }
    target = resolved(write(tmp_path / "config", cluster=cluster))
    assert target.endpoint.server == "https://api.example.org:6443"
    assert target.endpoint.ca == "CA"
    assert target.endpoint.tls_server_name == "kubernetes"
    assert target.endpoint.proxy == "http://proxy:3128"
    assert target.namespace == "team"


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ({}, Credential()),
        ({"token": "abc"}, Credential("Bearer abc")),
        ({"username": "joe", "password": "pw"}, Credential(f"Basic {encoded('joe:pw')}")),
        (
            {"client-certificate-data": encoded("CERT"), "client-key-data": encoded("KEY")},
            Credential("", "CERT", "KEY"),
        ),
        (
            {"token": "abc", "as": "ann", "as-groups": ["g1", "g2"]},
            Credential("Bearer abc", impersonation=(("Impersonate-User", "ann"), ("Impersonate-Group", "g1"), ("Impersonate-Group", "g2"))),
        ),
    ],
    ids=["nobody", "token", "basic", "certificate", "impersonation"],
)  # fmt: skip
async def test_credentials_written_in_the_kubeconfig(tmp_path: Path, user: Any, expected: Credential) -> None:
    assert await resolved(write(tmp_path / "config", user=user)).credentials.current() == expected


async def test_relative_paths_are_relative_to_their_file(tmp_path: Path) -> None:
    (tmp_path / "pki").mkdir()
    for name in ("ca", "crt", "key"):
        (tmp_path / "pki" / name).write_text(name.upper())
    path = write(
        tmp_path / "config",
        cluster={"certificate-authority": "pki/ca"},
        user={"client-certificate": "pki/crt", "client-key": "pki/key"},
    )
    target = resolved(path)
    assert target.endpoint.ca == "CA"
    assert await target.credentials.current() == Credential("", "CRT", "KEY")


def test_first_file_of_kubeconfig_wins_and_missing_ones_are_passed_over(tmp_path: Path) -> None:
    first = write(tmp_path / "first", cluster={"server": "https://first"})
    second = write(tmp_path / "second", cluster={"server": "https://second"})
    third = write(tmp_path / "third", context="other", cluster={"server": "https://third"})
    env = {"KUBECONFIG": f"{tmp_path}/missing:{first}:{second}:{third}"}
    assert resolve(environment=env).endpoint.server == "https://first"
    assert resolve(context="other", environment=env).endpoint.server == "https://third"


def test_nulls_that_kubectl_writes_are_taken_as_absent(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("clusters: null\ncontexts: null\ncurrent-context: ''\nusers: null\n")
    with pytest.raises(ConfigError, match="no context is chosen"):
        resolved(path)


@pytest.mark.parametrize(
    ("server", "cluster", "expected"),
    [
        ("10.0.0.1:8080", {}, "http://10.0.0.1:8080"),
        ("10.0.0.1:6443", {"certificate-authority-data": encoded("CA")}, "https://10.0.0.1:6443"),
        ("10.0.0.1:6443", {"insecure-skip-tls-verify": True}, "https://10.0.0.1:6443"),
    ],
)
def test_server_without_scheme(tmp_path: Path, server: str, cluster: Any, expected: str) -> None:
    assert resolved(write(tmp_path / "config", cluster={"server": server} | cluster)).endpoint.server == expected


@pytest.mark.parametrize(
    ("server", "env", "proxy"),
    [
        ("https://api.example.org", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://api.example.org", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "example.org"}, ""),
        ("https://api.example.org", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "other.org,.example.org"}, ""),
        ("https://10.1.2.3:6443", {"https_proxy": "http://p:1", "no_proxy": "10.0.0.0/8"}, ""),
        ("https://11.1.2.3:6443", {"https_proxy": "http://p:1", "no_proxy": "10.0.0.0/8"}, "http://p:1"),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": "http://p:1"}, ""),
        ("http://api.example.org", {"HTTPS_PROXY": "http://p:1"}, ""),
    ],
)
def test_proxy_of_the_environment(tmp_path: Path, server: str, env: dict[str, str], proxy: str) -> None:
    assert resolved(write(tmp_path / "config", cluster={"server": server}), **env).endpoint.proxy == proxy


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"current-context": "nope"}, r"there is no context 'nope' \(known contexts: dev\)"),
        ({"clusters": []}, r"context dev: there is no cluster 'dev' \(it has no clusters\)"),
        ({"users": []}, "context dev: there is no user 'dev'"),
        ({"clusters": [{"name": "dev"}]}, "cluster dev has no server"),
        ({"clusters": [{"name": "dev", "cluster": {"server": "ftp://x"}}]}, "must begin with https"),
        (
            {"clusters": [{"name": "dev", "cluster": {"server": "https://x", "proxy-url": "socks5://p"}}]},
            "only http and https proxies",
        ),
        (
            {"clusters": [{"name": "dev", "cluster": {"server": "https://x", "certificate-authority": "gone.crt"}}]},
            "certificate-authority .*gone.crt cannot be read: No such file",
        ),
        ({"users": [{"name": "dev", "user": {"client-key-data": encoded("KEY")}}]}, "client-key but no client-certificate"),
        ({"users": [{"name": "dev", "user": {"client-key-data": "A"}}]}, "client-key-data is not base64"),
        ({"users": [{"name": "dev", "user": {"auth-provider": {"name": "gcp"}}}]}, "use its exec plugin"),
        ({"clusters": "text"}, r"not in its form: .*\$.clusters"),
    ],
)  # fmt: skip
def test_error_says_where_and_what_to_do(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolved(write(tmp_path / "config", **change))


def test_insecure_with_a_ca_is_refused(tmp_path: Path) -> None:
    cluster = {"certificate-authority-data": encoded("CA"), "insecure-skip-tls-verify": True}
    with pytest.raises(ConfigError, match="remove one of them"):
        resolved(write(tmp_path / "config", cluster=cluster))


def test_named_file_that_is_missing_or_broken(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        resolved(tmp_path / "missing")
    (tmp_path / "broken").write_text("a: [")
    with pytest.raises(ConfigError, match="is not YAML"):
        resolved(tmp_path / "broken")


def test_nothing_configured_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="modelyard up"):
        resolve(environment={"HOME": str(tmp_path)})


def test_kubeconfig_variable_that_names_nothing_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"KUBECONFIG names .*missing, which does not exist"):
        resolve(environment={"KUBECONFIG": str(tmp_path / "missing")})


def test_default_file_is_used(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube" / "config")
    assert resolve(environment={"HOME": str(tmp_path)}).endpoint.server == "https://10.0.0.1:6443"


async def test_in_cluster_uses_the_service_account_and_reads_a_rotated_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "ca.crt").write_text("CA")
    (tmp_path / "namespace").write_text("team")
    env = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    target = resolve(environment=env, service_account=tmp_path)
    assert target.endpoint.server == "https://[fd00::1]:443"
    assert (target.endpoint.ca, target.namespace) == ("CA", "team")
    used = await target.credentials.current()
    assert used.authorization == "Bearer first"
    assert not await target.credentials.refused(used)
    (tmp_path / "token").write_text("second\n")
    assert await target.credentials.refused(used)
    assert (await target.credentials.current()).authorization == "Bearer second"


async def test_files_are_read_again_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "REREAD_AFTER", -1.0)
    (tmp_path / "token").write_text("first")
    credentials = Files(Credential(), token=str(tmp_path / "token"))
    assert (await credentials.current()).authorization == "Bearer first"
    (tmp_path / "token").write_text("second")
    assert (await credentials.current()).authorization == "Bearer second"
    (tmp_path / "token").unlink()
    assert (await credentials.current()).authorization == "Bearer second"


def script(path: Path, body: str) -> str:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def answer(version: str = "v1", **status: str) -> str:
    document = {"apiVersion": f"client.authentication.k8s.io/{version}", "kind": "ExecCredential", "status": status}
    return f"echo '{json.dumps(document)}'"


V1 = "client.authentication.k8s.io/v1"


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_plugin_gives_a_token(tmp_path: Path, version: str) -> None:
    command = script(tmp_path / "plugin", answer(version, token="from-plugin"))
    user = {"exec": {"apiVersion": f"client.authentication.k8s.io/{version}", "command": command}}
    credentials = resolved(write(tmp_path / "config", user=user)).credentials
    assert (await credentials.current()).authorization == "Bearer from-plugin"


async def test_plugin_gives_a_certificate() -> None:
    status = {"clientCertificateData": "CERT", "clientKeyData": "KEY"}
    plugin = Plugin("joe", "sh", V1, ("-c", answer(**status)))
    assert await PluginCredentials(plugin).current() == Credential("", "CERT", "KEY")


async def test_plugin_gets_arguments_environment_and_cluster(tmp_path: Path) -> None:
    out = tmp_path / "seen"
    command = script(tmp_path / "plugin", f'echo "$1 $STAGE $KUBERNETES_EXEC_INFO" > {out}\n{answer(token="x")}')
    user = {
        "exec": {
            "apiVersion": V1,
            "command": command,
            "args": ["login"],
            "env": [{"name": "STAGE", "value": "test"}],
            "provideClusterInfo": True,
            "interactiveMode": "Never",
        }
    }
    cluster = {
        "certificate-authority-data": encoded("CA"),
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "me"}}],
    }
    await resolved(write(tmp_path / "config", user=user, cluster=cluster)).credentials.current()
    argument, stage, info = out.read_text().split(" ", 2)
    assert (argument, stage) == ("login", "test")
    assert json.loads(info)["spec"] == {
        "interactive": False,
        "cluster": {
            "server": "https://10.0.0.1:6443",
            "certificate-authority-data": encoded("CA"),
            "config": {"audience": "me"},
        },
    }


async def test_plugin_runs_again_only_after_expiry_or_refusal(tmp_path: Path) -> None:
    runs, now = tmp_path / "runs", datetime(2026, 1, 1, tzinfo=UTC)
    expiry = "2026-01-01T01:00:00Z"
    body = f"echo run >> {runs}; {answer(token='x', expirationTimestamp=expiry)}"
    credentials = PluginCredentials(Plugin("joe", "sh", V1, ("-c", body)), clock=lambda: now)

    def count() -> int:
        return len(runs.read_text().splitlines())

    used = await credentials.current()
    await credentials.current()
    assert count() == 1
    now += timedelta(hours=1)
    await credentials.current()
    assert count() == 2
    now -= timedelta(hours=1)
    assert await credentials.refused(used)
    assert count() == 3


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        (Plugin("joe", "no-such-plugin", V1, install_hint="get it from example.org"), "is not installed; get it from"),
        (Plugin("joe", "sh", V1, ("-c", "echo denied >&2; exit 3")), "failed with exit code 3: denied"),
        (Plugin("joe", "sh", V1, ("-c", "echo hello")), "did not write an ExecCredential"),
        (Plugin("joe", "sh", V1, ("-c", answer("v1beta1", token="x"))), "not ExecCredential in client.*v1"),
        (Plugin("joe", "sh", V1, ("-c", answer())), "neither a token nor a client certificate"),
        (Plugin("joe", "sh", V1, ("-c", answer(clientCertificateData="C"))), "without its key"),
        (Plugin("joe", "sh", "client.authentication.k8s.io/v1alpha1"), "set its apiVersion to"),
        (Plugin("joe", "sh", V1, interactive_mode="Always"), "no terminal"),
    ],
)
async def test_plugin_failure_is_said_for_people(plugin: Plugin, message: str) -> None:
    with pytest.raises(Unreachable, match=f"of user joe .*{message}"):
        await PluginCredentials(plugin).current()
