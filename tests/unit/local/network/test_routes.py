from __future__ import annotations

import pytest

from modelyard.kube.kinds import Object
from modelyard.local.network.routes import (
    Table,
    from_http_route,
    from_ingress,
    from_openshift,
    service_port,
    speaks_https,
)


def http_route(*rules: Object, hostnames: list[str] | None = None, name: str = "r") -> Object:
    spec: Object = {"rules": list(rules)}
    if hostnames:
        spec["hostnames"] = hostnames
    return {"metadata": {"name": name, "namespace": "demo", "creationTimestamp": "2030-01-01T00:00:00Z"}, "spec": spec}


def rule(path: str, service: str, kind: str = "PathPrefix", **more: object) -> Object:
    return {
        "matches": [{"path": {"type": kind, "value": path}}],
        "backendRefs": [{"name": service, "port": 8443}],
        **more,
    }


def rewrite(prefix: str) -> list[Object]:
    return [
        {"type": "URLRewrite", "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": prefix}}}
    ]


def serve(
    table: Table, path: str, host: str = "localhost:8443", method: str = "GET", **headers: str
) -> tuple[str, str] | None:
    route = table.find(host, method, path, headers, {})
    return (route.backends[0].service, route.target_path(path)) if route else None


MLFLOW = http_route(rule("/mlflow/v1", "mlflow", filters=rewrite("/v1")), rule("/mlflow", "mlflow"))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/mlflow", ("mlflow", "/mlflow")),
        ("/mlflow/", ("mlflow", "/mlflow/")),
        ("/mlflow/api/2.0/x", ("mlflow", "/mlflow/api/2.0/x")),
        ("/mlflow/v1", ("mlflow", "/v1")),
        ("/mlflow/v1/traces", ("mlflow", "/v1/traces")),
        ("/mlflowx", None),
        ("/", None),
    ],
)
def test_prefixes_match_whole_segments_and_are_rewritten(path: str, expected: tuple[str, str] | None) -> None:
    assert serve(Table(from_http_route(MLFLOW)), path) == expected


@pytest.mark.parametrize(
    ("prefix", "path", "target"), [("/", "/a/b", "/b"), ("/", "/a", "/"), ("/x/", "/a/b", "/x/b"), ("/x", "/a", "/x")]
)
def test_a_replaced_prefix_joins_without_double_slashes(prefix: str, path: str, target: str) -> None:
    table = Table(from_http_route(http_route(rule("/a", "s", filters=rewrite(prefix)))))
    assert serve(table, path) == ("s", target)


def test_exact_goes_before_longer_prefix_before_shorter() -> None:
    routes = [rule("/", "root"), rule("/a", "short"), rule("/a/b", "long"), rule("/a/b", "exact", "Exact")]
    table = Table(from_http_route(http_route(*routes)))
    assert [serve(table, path) for path in ("/x", "/a/x", "/a/b/c", "/a/b")] == [
        ("root", "/x"), ("short", "/a/x"), ("long", "/a/b/c"), ("exact", "/a/b"),
    ]  # fmt: skip


def test_hosts_are_matched_exactly_then_by_wildcard_then_any() -> None:
    routes = [
        *from_http_route(http_route(rule("/", "exact"), hostnames=["a.example.com"])),
        *from_http_route(http_route(rule("/", "wild"), hostnames=["*.example.com"])),
        *from_http_route(http_route(rule("/", "any"))),
    ]
    table = Table(routes)
    hosts = ("a.example.com", "b.example.com", "localhost:1", "a.localhost")
    assert [found[0] for host in hosts if (found := serve(table, "/", host))] == [
        "exact",
        "wild",
        "any",
        "exact",
    ]


def test_at_localhost_a_route_for_another_host_is_served_if_none_is_better() -> None:
    table = Table(from_http_route(http_route(rule("/reg", "registry"), hostnames=["registry.example.com"])))
    assert serve(table, "/reg/x") == ("registry", "/reg/x")
    assert serve(table, "/reg/x", "evil.example.org") is None


def test_methods_and_headers_narrow_a_match() -> None:
    narrow = {
        "path": {"type": "PathPrefix", "value": "/"},
        "method": "POST",
        "headers": [{"name": "x-v", "value": "2"}],
    }
    routes = http_route({"matches": [narrow], "backendRefs": [{"name": "new", "port": 1}]}, rule("/", "old"))
    table = Table(from_http_route(routes))
    assert serve(table, "/", method="POST", **{"x-v": "2"}) == ("new", "/")
    assert serve(table, "/", method="POST") == ("old", "/")


def test_ingress_paths_and_default_backend() -> None:
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    spec = {
        "defaultBackend": {"service": {"name": "fallback", "port": {"name": "http"}}},
        "rules": [
            {"host": "web.example.com", "http": {"paths": [{"path": "/app", "pathType": "Prefix", "backend": backend}]}}
        ],
    }
    table = Table(from_ingress({"metadata": {"name": "i", "namespace": "demo"}, "spec": spec}))
    assert serve(table, "/app/x", "web.example.com") == ("web", "/app/x")
    assert serve(table, "/other", "web.example.com") == ("fallback", "/other")


def test_openshift_routes_choose_tls_by_termination() -> None:
    spec = {"host": "m.apps", "to": {"kind": "Service", "name": "m"}, "port": {"targetPort": "https"}}
    obj: Object = {"metadata": {"name": "m", "namespace": "demo"}, "spec": spec | {"tls": {"termination": "reencrypt"}}}
    (route,) = from_openshift(obj)
    assert (route.host, route.backends[0].https, route.backends[0].port) == ("m.apps", True, "https")


@pytest.mark.parametrize(
    ("wanted", "found"),
    [("8443", "https"), ("https", "https"), ("api", "https"), ("9090", "metrics"), ("", None), ("1", None)],
)
def test_a_backend_port_is_found_by_number_name_or_target(wanted: str, found: str | None) -> None:
    ports = [{"name": "https", "port": 8443, "targetPort": "api"}, {"name": "metrics", "port": 9090}]
    port = service_port({"spec": {"ports": ports}}, wanted)
    assert (port or {}).get("name") == found


@pytest.mark.parametrize(
    ("port", "https"),
    [
        ({"name": "https-api", "port": 1}, True),
        ({"port": 8443}, True),
        ({"name": "http", "port": 80}, False),
        ({"name": "https", "port": 443, "appProtocol": "http"}, False),
        ({"port": 9000, "appProtocol": "https"}, True),
    ],
)
def test_tls_is_read_from_the_port(port: Object, https: bool) -> None:
    assert speaks_https(port) is https
