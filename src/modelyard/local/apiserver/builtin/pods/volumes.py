"""What Kubernetes refuses in a pod's volumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from modelyard.kube.kinds import Object
from modelyard.kube.quantities import parse
from modelyard.local.apiserver.builtin import checks
from modelyard.local.apiserver.requests.problems import (
    Cause,
    duplicate,
    field_forbidden,
    invalid_value,
    not_supported,
    required,
)

_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_HOST_PATH_TYPES = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip


def validate_volumes(volumes: Sequence[Object], field: str) -> tuple[Mapping[str, Object], list[Cause]]:
    """The valid volumes by name, and what is wrong with the others."""
    valid: dict[str, Object] = {}
    found: list[Cause] = []
    for index, volume in enumerate(volumes):
        path = f"{field}[{index}]"
        name = volume.get("name", "")
        wrong = validate_source(volume, path)
        if not name:
            wrong.append(required(f"{path}.name"))
        else:
            wrong += checks.dns_label(name, f"{path}.name")
        if name in valid:
            wrong.append(duplicate(f"{path}.name", name))
        if wrong:
            found += wrong
        else:
            valid[name] = volume
    return valid, found


def validate_source(volume: Object, field: str) -> list[Cause]:
    found: list[Cause] = []
    first = True
    for name, check in _SOURCES.items():
        source = volume.get(name)
        if source is None:
            continue
        if not first:
            found.append(field_forbidden(f"{field}.{name}", "may not specify more than 1 volume type"))
            continue
        first = False
        found += check(source, f"{field}.{name}")
    if first and not any(key != "name" for key in volume):
        found.append(required(field, "must specify a volume type"))
    return found


def _empty_dir(source: Object, field: str) -> list[Cause]:
    limit = source.get("sizeLimit")
    if limit is not None and parse(limit).nanos < 0:
        return [field_forbidden(f"{field}.sizeLimit", "SizeLimit field must be a valid resource quantity")]
    return []


def _host_path(source: Object, field: str) -> list[Cause]:
    path = source.get("path", "")
    if not path:
        return [required(f"{field}.path")]
    found = no_backsteps(path, f"{field}.path")
    kind = source.get("type")
    if kind is not None and kind not in _HOST_PATH_TYPES:
        found.append(not_supported(f"{field}.type", kind, _HOST_PATH_TYPES))
    return found


def _file_mode(value: int | None, field: str) -> list[Cause]:
    return [invalid_value(field, value, _MODE)] if value is not None and not 0 <= value <= 0o777 else []


def _items(source: Object, field: str) -> list[Cause]:
    found: list[Cause] = []
    for index, item in enumerate(source.get("items") or ()):
        path = f"{field}.items[{index}]"
        if not item.get("key"):
            found.append(required(f"{path}.key"))
        if not item.get("path"):
            found.append(required(f"{path}.path"))
        found += local_path(item.get("path", ""), f"{path}.path")
        found += _file_mode(item.get("mode"), f"{path}.mode")
    return found


def _secret(source: Object, field: str) -> list[Cause]:
    found = [] if source.get("secretName") else [required(f"{field}.secretName")]
    return found + _file_mode(source.get("defaultMode"), f"{field}.defaultMode") + _items(source, field)


def _config_map(source: Object, field: str) -> list[Cause]:
    found = [] if source.get("name") else [required(f"{field}.name")]
    return found + _file_mode(source.get("defaultMode"), f"{field}.defaultMode") + _items(source, field)


def _claim(source: Object, field: str) -> list[Cause]:
    return [] if source.get("claimName") else [required(f"{field}.claimName")]


def _nfs(source: Object, field: str) -> list[Cause]:
    found: list[Cause] = []
    if not source.get("server"):
        found.append(required(f"{field}.server"))
    path = source.get("path", "")
    if not path:
        found.append(required(f"{field}.path"))
    if not path.startswith("/"):
        found.append(invalid_value(f"{field}.path", path, "must be an absolute path"))
    return found


def _downward(source: Object, field: str) -> list[Cause]:
    found = _file_mode(source.get("defaultMode"), f"{field}.defaultMode")
    for file in source.get("items") or ():
        found += _downward_file(file, field)
    return found


def _downward_file(file: Object, field: str) -> list[Cause]:
    found = [] if file.get("path") else [required(f"{field}.path")]
    found += local_path(file.get("path", ""), f"{field}.path")
    if file.get("fieldRef") is None and file.get("resourceFieldRef") is None:
        found.append(required(field, "one of fieldRef and resourceFieldRef is required"))
    elif file.get("fieldRef") is not None:
        found += field_reference(file["fieldRef"], f"{field}.fieldRef", VOLUME_FIELDS)
        if file.get("resourceFieldRef") is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            found.append(invalid_value(field, "resource", detail))
    return found + _file_mode(file.get("mode"), f"{field}.mode")


def _projected(source: Object, field: str) -> list[Cause]:
    found = _file_mode(source.get("defaultMode"), f"{field}.defaultMode")
    for index, projection in enumerate(source.get("sources") or ()):
        path = f"{field}.sources[{index}]"
        for name in ("secret", "configMap"):
            if projection.get(name) is not None:
                if not projection[name].get("name"):
                    found.append(required(f"{path}.{name}.name"))
                found += _items(projection[name], f"{path}.{name}")
        if projection.get("downwardAPI") is not None:
            for file in projection["downwardAPI"].get("items") or ():
                found += _downward_file(file, f"{path}.downwardAPI")
        token = projection.get("serviceAccountToken")
        if token is not None:
            found += _token(token, field, f"{path}.serviceAccountToken")
        if len(projection) > 1:
            found.append(field_forbidden(path, "may not specify more than 1 volume type per source"))
    return found


def _token(token: Object, field: str, path: str) -> list[Cause]:
    found: list[Cause] = []
    seconds = token.get("expirationSeconds", 3600)
    if seconds < 600:
        detail = "may not specify a duration less than 10 minutes"
        found.append(invalid_value(f"{path}.expirationSeconds", seconds, detail))
    if seconds > 1 << 32:
        detail = "may not specify a duration larger than 2^32 seconds"
        found.append(invalid_value(f"{path}.expirationSeconds", seconds, detail))
    if not token.get("path"):
        # The path is reported at the volume, not at the source, as Kubernetes does.
        found.append(required(f"{field}.path"))
    else:
        found += local_path(token["path"], f"{field}.path")
    return found


def _anything(source: Object, field: str) -> list[Cause]:
    return []


_SOURCES = {
    "emptyDir": _empty_dir, "hostPath": _host_path, "gitRepo": _anything, "gcePersistentDisk": _anything,
    "awsElasticBlockStore": _anything, "secret": _secret, "nfs": _nfs, "iscsi": _anything, "glusterfs": _anything,
    "flocker": _anything, "persistentVolumeClaim": _claim, "rbd": _anything, "cinder": _anything, "cephfs": _anything,
    "quobyte": _anything, "downwardAPI": _downward, "fc": _anything, "configMap": _config_map, "azureFile": _anything,
    "vsphereVolume": _anything, "azureDisk": _anything, "projected": _projected, "scaleIO": _anything,
    "csi": _anything, "ephemeral": _anything, "image": _anything,
}  # fmt: skip


def no_backsteps(path: str, field: str) -> list[Cause]:
    return [invalid_value(field, path, "must not contain '..'")] if ".." in path.split("/") else []


def descending_path(path: str, field: str) -> list[Cause]:
    found = [invalid_value(field, path, "must be a relative path")] if path.startswith("/") else []
    return found + no_backsteps(path, field)


def local_path(path: str, field: str) -> list[Cause]:
    found = descending_path(path, field)
    if path.startswith("..") and not path.startswith("../"):
        found.append(invalid_value(field, path, "must not start with '..'"))
    return found


ENV_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP",
    "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
VOLUME_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_KNOWN_FIELDS = frozenset(
    ENV_FIELDS + VOLUME_FIELDS + ("spec.restartPolicy", "spec.schedulerName", "spec.host", "status.phase")
)


def field_reference(reference: Object, field: str, supported: Sequence[str]) -> list[Cause]:
    version, path = reference.get("apiVersion", ""), reference.get("fieldPath", "")
    if not version:
        return [required(f"{field}.apiVersion")]
    if not path:
        return [required(f"{field}.fieldPath")]
    base, bracket, rest = path.partition("['")
    if version != "v1":
        detail = f"error converting fieldPath: unsupported pod version: {version}"
        return [invalid_value(f"{field}.fieldPath", path, detail)]
    if bracket and rest.endswith("']"):
        if base not in ("metadata.annotations", "metadata.labels"):
            if base in _KNOWN_FIELDS:
                detail = f"error converting fieldPath: field label does not support subscript: {path}"
            else:
                detail = f"error converting fieldPath: field label not supported: {path}"
            return [invalid_value(f"{field}.fieldPath", path, detail)]
        key = rest[:-2]
        return checks.qualified_name(key.lower() if base.endswith("annotations") else key, field)
    if path not in _KNOWN_FIELDS:
        detail = f"error converting fieldPath: field label not supported: {path}"
        return [invalid_value(f"{field}.fieldPath", path, detail)]
    if path not in supported:
        return [not_supported(f"{field}.fieldPath", path, supported)]
    return []
