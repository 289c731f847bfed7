"""A container's environment, from every source a pod spec has, and the expansion of `$(NAME)` in it, command and args."""

from __future__ import annotations

import base64
import re
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from modelyard.kube import builtin, names
from modelyard.kube.kinds import Object
from modelyard.local.kubelet import downward
from modelyard.local.kubelet.facts import Node, Objects

_LONGEST = 128 * 1024
"""How long one text may be that a program is given, as Linux has it."""
_MOST_CHARACTERS = 2 * 1024 * 1024
_REFERENCE = re.compile(r"\$(?:\$|\(([^()]*)\))")


class ConfigError(Exception):
    """The container cannot be configured (`CreateContainerConfigError`); the text is the kubelet's message."""


@dataclass(frozen=True, slots=True)
class Environment:
    """`given` comes from the pod's author, `services` from the cluster; skipped names could not be variables."""

    given: dict[str, str]
    services: dict[str, str]
    skipped: dict[str, list[str]] = field(default_factory=dict)

    @property
    def all(self) -> dict[str, str]:
        return self.services | self.given


def environment(pod: Object, container: Object, objects: Objects, *, pod_ip: str, node: Node) -> Environment:
    namespace = pod["metadata"]["namespace"]
    services = service_variables(pod, objects, node)
    given: dict[str, str] = {}
    skipped: dict[str, list[str]] = {}
    for source in container.get("envFrom") or []:
        for key, value in _bulk(source, namespace, objects).items():
            name = f"{source.get('prefix', '')}{key}"
            if names.env_name(name):
                skipped.setdefault(_source_name(source, namespace), []).append(name)
            else:
                given[name] = value
    known = ChainMap(given, services)
    for item in container.get("env") or []:
        if item.get("valueFrom"):
            found = _referenced(pod, container, item["valueFrom"], objects, pod_ip=pod_ip, node=node)
            if found is not None:
                given[item["name"]] = found
        else:
            given[item["name"]] = expand(str(item.get("value") or ""), known)
    _check_size(given)
    return Environment(given, services, skipped)


def _check_size(given: Mapping[str, str]) -> None:
    if sum(len(name) + len(value) for name, value in given.items()) > _MOST_CHARACTERS:
        raise ConfigError(f"argument list too long: the variables hold more than {_MOST_CHARACTERS // 1024} KiB")


def expand(text: str, values: Mapping[str, str]) -> str:
    """`$(NAME)` becomes the value of NAME if there is one and stays otherwise; `$$` is a plain dollar sign.
    Values that hold one another grow with each level: a text longer than a program can be given is not made."""
    parts: list[str] = []
    end = size = 0
    for found in _REFERENCE.finditer(text):
        name = found[1]
        parts += [text[end : found.start()], "$" if name is None else values.get(name, found[0])]
        end = found.end()
        size += len(parts[-2]) + len(parts[-1])
        if size > _LONGEST:
            raise ConfigError(
                f"argument list too long: {text[:40]!r} is longer than {_LONGEST // 1024} KiB with its references filled in"
            )
    return "".join((*parts, text[end:])) if parts else text


def command_line(container: Object, values: Mapping[str, str]) -> tuple[list[str] | None, list[str] | None]:
    """The spec's command and args, expanded; None where the image's own apply."""
    command, args = container.get("command"), container.get("args")
    return (
        [expand(str(word), values) for word in command] if command else None,
        [expand(str(word), values) for word in args] if args else None,
    )


def _bulk(source: Object, namespace: str, objects: Objects) -> dict[str, str]:
    if "configMapRef" in source:
        reference = source["configMapRef"]
        found = objects.find(builtin.ConfigMap, namespace, reference["name"])
        if found is None:
            if reference.get("optional"):
                return {}
            raise ConfigError(f'configmap "{reference["name"]}" not found')
        return {key: str(value) for key, value in sorted((found.get("data") or {}).items())}
    if "secretRef" in source:
        reference = source["secretRef"]
        found = objects.find(builtin.Secret, namespace, reference["name"])
        if found is None:
            if reference.get("optional"):
                return {}
            raise ConfigError(f'secret "{reference["name"]}" not found')
        return {key: _decoded(value) for key, value in sorted((found.get("data") or {}).items())}
    return {}


def _source_name(source: Object, namespace: str) -> str:
    if "configMapRef" in source:
        return f"ConfigMap {namespace}/{source['configMapRef']['name']}"
    return f"Secret {namespace}/{source['secretRef']['name']}"


def _referenced(
    pod: Object, container: Object, source: Object, objects: Objects, *, pod_ip: str, node: Node
) -> str | None:
    """The value of a `valueFrom`; None for an optional one that is absent."""
    namespace = pod["metadata"]["namespace"]
    try:
        if "fieldRef" in source:
            return downward.field_text(pod, source["fieldRef"]["fieldPath"], pod_ip=pod_ip, node=node)
        if "resourceFieldRef" in source:
            return downward.resource_text(pod, source["resourceFieldRef"], container, node=node)
    except downward.FieldError as error:
        raise ConfigError(str(error)) from error
    if "configMapKeyRef" in source:
        return _keyed(source["configMapKeyRef"], "ConfigMap", namespace, objects, str)
    if "secretKeyRef" in source:
        return _keyed(source["secretKeyRef"], "Secret", namespace, objects, _decoded)
    raise ConfigError(f"env source {', '.join(source)} is not supported on the local node")


def _keyed(reference: Object, what: str, namespace: str, objects: Objects, decode: Callable[[str], str]) -> str | None:
    kind = builtin.ConfigMap if what == "ConfigMap" else builtin.Secret
    name, key = reference["name"], reference["key"]
    found = objects.find(kind, namespace, name)
    if found is None:
        if reference.get("optional"):
            return None
        raise ConfigError(f'{what.lower()} "{name}" not found')
    data = found.get("data") or {}
    if key not in data:
        if reference.get("optional"):
            return None
        raise ConfigError(f"couldn't find key {key} in {what} {namespace}/{name}")
    return decode(data[key])


def _decoded(value: str) -> str:
    return base64.b64decode(value).decode("utf-8", errors="surrogateescape")


def service_variables(pod: Object, objects: Objects, node: Node) -> dict[str, str]:
    """The docker-links style variables of the pod's namespace, and where the API server is."""
    namespace = pod["metadata"]["namespace"]
    links = pod["spec"].get("enableServiceLinks", True)
    variables: dict[str, str] = {}
    seen: set[str] = set()
    chosen = [*objects.list(builtin.Service, namespace)] if links else []
    api = objects.find(builtin.Service, "default", "kubernetes")
    if api is not None:
        chosen.append(api)
    for service in chosen:
        spec = service["spec"]
        address = spec.get("clusterIP") or ""
        name = service["metadata"]["name"]
        if not address or address == "None" or not spec.get("ports") or name in seen:
            continue
        seen.add(name)
        variables |= _variables_of(name, address, spec["ports"])
    if node.api_host:
        port = [{"name": "https", "port": node.api_port, "protocol": "TCP"}]
        variables |= _variables_of("kubernetes", node.api_host, port)
    return variables


def _variables_of(name: str, address: str, ports: list[Object]) -> dict[str, str]:
    prefix = name.upper().replace("-", "_")
    first = ports[0]
    protocol = str(first.get("protocol", "TCP")).lower()
    variables = {
        f"{prefix}_SERVICE_HOST": address,
        f"{prefix}_SERVICE_PORT": str(first["port"]),
        f"{prefix}_PORT": f"{protocol}://{address}:{first['port']}",
    }
    for port in ports:
        protocol = str(port.get("protocol", "TCP"))
        if port.get("name"):
            variables[f"{prefix}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}"] = str(port["port"])
        base = f"{prefix}_PORT_{port['port']}_{protocol.upper()}"
        variables |= {
            base: f"{protocol.lower()}://{address}:{port['port']}",
            f"{base}_PROTO": protocol.lower(),
            f"{base}_PORT": str(port["port"]),
            f"{base}_ADDR": address,
        }
    return variables
