"""Random specs of registries, as hypothesis strategies: whatever the schema of v1beta1 allows."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from modelyard.kube.kinds import Object

names = st.text("abcdefghij-.", min_size=1, max_size=12)
ports = st.integers(0, 65535)
keys = st.fixed_dictionaries({"name": names, "key": names})
switches = st.sampled_from(["disabled", "enabled"])
resources = st.dictionaries(
    st.sampled_from(["requests", "limits"]),
    st.dictionaries(st.sampled_from(["cpu", "memory"]), st.just("1")),
    max_size=2,
)


def optional(required: dict[str, SearchStrategy[Any]], **fields: SearchStrategy[Any]) -> SearchStrategy[Object]:
    return st.fixed_dictionaries(required, optional=fields)


server = optional({}, port=ports, serviceRoute=switches, image=names, resources=resources)
grpc = optional({}, port=ports, image=names, resources=resources)
proxy = optional(
    {},
    port=ports,
    serviceRoute=switches,
    domain=st.sampled_from(["", "example.com"]),
    routePort=ports,
    image=names,
    tlsCertificateSecret=keys,
    tlsKeySecret=keys,
)
postgres = optional(
    {},
    host=names,
    hostAddress=names,
    port=ports,
    username=names,
    database=st.one_of(st.just(""), names),
    passwordSecret=keys,
    skipDBCreation=st.booleans(),
    generateDeployment=st.booleans(),
    image=names,
    sslMode=st.sampled_from(["disable", "verify-full"]),
    sslRootCertificateSecret=keys,
)
mysql = optional(
    {"host": names, "username": names, "database": names},
    port=ports,
    passwordSecret=keys,
    sslCipher=st.text("ab:", max_size=4),
    verifyServerCert=st.booleans(),
)
proxies: SearchStrategy[Object] = st.one_of(
    st.just({}), st.fixed_dictionaries({"kubeRBACProxy": proxy}), st.fixed_dictionaries({"oauthProxy": proxy})
)
specs = st.builds(
    lambda base, proxied: base | proxied,
    optional(
        {"rest": server},
        grpc=grpc,
        postgres=postgres,
        mysql=mysql,
        enable_database_upgrade=st.booleans(),
        downgrade_db_schema_version=st.integers(0, 10),
    ),
    proxies,
)
noted: SearchStrategy[dict[str, str] | None] = st.one_of(
    st.none(), st.dictionaries(names, names, min_size=1, max_size=3)
)


def _registry(spec: Object | None, notes: dict[str, str] | None) -> Object:
    metadata: Object = {"name": "mr", "namespace": "shop", "uid": "u"} | ({"annotations": notes} if notes else {})
    base: Object = {"apiVersion": "modelregistry.opendatahub.io/v1beta1", "kind": "ModelRegistry", "metadata": metadata}
    status = {"status": {"hosts": ["a"], "conditions": []}}
    return base | status | ({"spec": spec} if spec is not None else {})


registries = st.builds(_registry, st.one_of(st.none(), specs), noted)


def _deployable(registry: Object) -> Object:
    """The registry as one that admission lets pass: with a database, and with ports that do not clash."""
    spec: Object = registry.setdefault("spec", {"rest": {}})
    postgres: Object = spec.get("postgres", {})
    if postgres.get("generateDeployment"):
        spec["postgres"] = {name: value for name, value in postgres.items() if name not in ("host", "hostAddress")}
    elif not {"host", "hostAddress", "mysql"} & (postgres.keys() | spec.keys()):
        spec["mysql"] = {"host": "h", "username": "u", "database": "d"}
    fixed = {"rest": 8080, "postgres": 5432, "mysql": 3306, "kubeRBACProxy": 8443, "oauthProxy": 9443}
    for part, port in fixed.items():
        if "port" in spec.get(part, {}):
            spec[part] = {**spec[part], "port": port}
    return registry


deployable = registries.map(_deployable)
