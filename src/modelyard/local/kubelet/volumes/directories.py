"""A pod's volumes as directories: made before its containers start, and kept current while they run."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.local.kubelet import downward
from modelyard.local.kubelet.facts import Node, Objects, containers
from modelyard.local.kubelet.volumes import payload
from modelyard.local.kubelet.volumes.payload import File
from modelyard.local.kubelet.volumes.tokens import Token, TokenError, Tokens

DEFAULT_MODE = 0o644
NODE_VOLUMES = "/modelyard/volumes"
"""Where the volumes of a laptop cluster seem to be on its node, wherever its folder is."""
_REFERENCES = {
    "configMapRef": "ConfigMap", "configMapKeyRef": "ConfigMap", "secretRef": "Secret", "secretKeyRef": "Secret",
}  # fmt: skip


class MountError(Exception):
    """A volume cannot be set up now; the text is what the kubelet's `FailedMount` event says."""

    def __init__(self, volume: str, reason: str) -> None:
        super().__init__(f'MountVolume.SetUp failed for volume "{volume}" : {reason}')
        self.volume = volume


@dataclass(frozen=True, slots=True)
class Mounted:
    """Where a volume is on this machine, and when its content should be looked at again (a token that expires)."""

    path: Path
    readonly: bool = False
    refresh: datetime | None = None


@dataclass(frozen=True, slots=True)
class VolumeContext:
    """What volumes are made from."""

    objects: Objects
    tokens: Tokens
    node: Node
    persistent_root: Path
    """PersistentVolumes must live below this directory: nothing else of the machine is shown to pods."""


class Volumes:
    """The volumes of one pod, below one directory."""

    def __init__(self, directory: Path, context: VolumeContext, *, owner: tuple[int, int] | None = None) -> None:
        self._directory = directory
        self._context = context
        self._owner = owner

    async def set_up(self, pod: Object, pod_ip: str) -> dict[str, Mounted]:
        """Make or refresh every volume. Raises `MountError` for the first that cannot be made."""
        mounted = {}
        for volume in pod["spec"].get("volumes") or []:
            name = volume["name"]
            try:
                mounted[name] = await self._volume(pod, volume, pod_ip)
            except (_Reason, TokenError, downward.FieldError, payload.PathError) as error:
                raise MountError(name, str(error)) from error
            except OSError as error:
                raise MountError(name, f"{error.strerror}: {error.filename}") from error
        return mounted

    async def _volume(self, pod: Object, volume: Object, pod_ip: str) -> Mounted:
        path = self._directory / volume["name"]
        namespace = pod["metadata"]["namespace"]
        match next((key for key in volume if key != "name" and volume[key] is not None), "emptyDir"):
            case "emptyDir":
                self._make(path)
                return Mounted(path)
            case "configMap":
                source = volume["configMap"]
                files = self._config_map(source, namespace, _mode(source))
                self._write(path, files)
                return Mounted(path, readonly=True)
            case "secret":
                source = volume["secret"]
                files = self._secret(source, source.get("secretName", ""), namespace, _mode(source))
                self._write(path, files)
                return Mounted(path, readonly=True)
            case "downwardAPI":
                source = volume["downwardAPI"]
                self._write(path, self._downward(pod, source, pod_ip, _mode(source)))
                return Mounted(path, readonly=True)
            case "projected":
                files, refresh = await self._projected(pod, volume["projected"], pod_ip)
                self._write(path, files)
                return Mounted(path, readonly=True, refresh=refresh)
            case "persistentVolumeClaim":
                source = volume["persistentVolumeClaim"]
                claimed = self._claim(namespace, source["claimName"])
                return Mounted(claimed, readonly=bool(source.get("readOnly")))
            case "ephemeral":
                return Mounted(self._claim(namespace, f"{pod['metadata']['name']}-{volume['name']}"))
            case "hostPath":
                raise _Reason(
                    f"hostPath {volume['hostPath'].get('path')} is refused: pods of a laptop cluster see no directory of "
                    "this machine; use an emptyDir or a persistentVolumeClaim"
                )
            case other:
                raise _Reason(
                    f"volume type {other} is not available on the local node; use emptyDir, configMap, secret, projected, "
                    "downwardAPI or persistentVolumeClaim"
                )

    def _write(self, path: Path, files: dict[str, File]) -> None:
        payload.write(path, files, owner=self._owner)

    def _config_map(self, source: Object, namespace: str, mode: int) -> dict[str, File]:
        name = source.get("name", "")
        found = self._context.objects.find(builtin.ConfigMap, namespace, name)
        if found is None:
            if source.get("optional"):
                return {}
            raise _Reason(f'configmap "{name}" not found')
        content = {key: str(text).encode() for key, text in (found.get("data") or {}).items()}
        content |= {key: base64.b64decode(text) for key, text in (found.get("binaryData") or {}).items()}
        return _selected(content, source, mode, "configmap references non-existent config key: {key}")

    def _secret(self, source: Object, name: str, namespace: str, mode: int) -> dict[str, File]:
        found = self._context.objects.find(builtin.Secret, namespace, name)
        if found is None:
            if source.get("optional"):
                return {}
            raise _Reason(f'secret "{name}" not found')
        content = {key: base64.b64decode(text) for key, text in (found.get("data") or {}).items()}
        return _selected(content, source, mode, "references non-existent secret key: {key}")

    def _downward(self, pod: Object, source: Object, pod_ip: str, mode: int) -> dict[str, File]:
        files = {}
        node = self._context.node
        for item in source.get("items") or []:
            if item.get("fieldRef"):
                text = downward.field_text(pod, item["fieldRef"]["fieldPath"], pod_ip=pod_ip, node=node)
            else:
                text = downward.resource_text(pod, item["resourceFieldRef"], None, node=node)
            files[item["path"]] = File(text.encode(), item.get("mode") or mode)
        return files

    async def _projected(self, pod: Object, source: Object, pod_ip: str) -> tuple[dict[str, File], datetime | None]:
        mode = _mode(source)
        namespace = pod["metadata"]["namespace"]
        files: dict[str, File] = {}
        refreshes: list[datetime] = []
        for part in source.get("sources") or []:
            if part.get("configMap") is not None:
                files |= self._config_map(part["configMap"], namespace, mode)
            elif part.get("secret") is not None:
                files |= self._secret(part["secret"], part["secret"].get("name", ""), namespace, mode)
            elif part.get("downwardAPI") is not None:
                files |= self._downward(pod, part["downwardAPI"], pod_ip, mode)
            elif part.get("serviceAccountToken") is not None:
                wanted = part["serviceAccountToken"]
                token: Token = await self._context.tokens.for_pod(
                    pod, audience=wanted.get("audience") or "", seconds=wanted.get("expirationSeconds") or 3600
                )
                files[wanted["path"]] = File(token.text.encode(), mode if self._owner else 0o600)
                refreshes.append(token.refresh)
            else:
                raise _Reason(f"projected source {', '.join(part)} is not available on the local node")
        return files, min(refreshes, default=None)

    def _claim(self, namespace: str, name: str) -> Path:
        claim = self._context.objects.find(builtin.PersistentVolumeClaim, namespace, name)
        if claim is None:
            raise _Reason(f'persistentvolumeclaim "{name}" not found')
        volume_name = claim["spec"].get("volumeName")
        if not volume_name or (claim.get("status") or {}).get("phase") != "Bound":
            raise _Reason(f'persistentvolumeclaim "{name}" is not bound')
        volume = self._context.objects.find(builtin.PersistentVolume, "", volume_name)
        if volume is None:
            raise _Reason(f'persistentvolume "{volume_name}" not found')
        spec = volume["spec"]
        # A claim names its volume by itself; only the volume says whose data it holds.
        if (spec.get("claimRef") or {}).get("uid") != claim["metadata"]["uid"]:
            raise _Reason(f'persistentvolume "{volume_name}" does not belong to persistentvolumeclaim "{name}"')
        text = (spec.get("local") or spec.get("hostPath") or {}).get("path")
        root = self._context.persistent_root.resolve()
        path = _on_this_machine(text, volume, root).resolve() if text else None
        if path is None or not path.is_relative_to(root):
            raise _Reason(f'persistentvolume "{volume_name}" is not a directory below {root}')
        self._make(path)
        return path

    def _make(self, path: Path) -> None:
        if not path.is_dir():
            path.mkdir(parents=True)
            # Any container may write, whatever user it runs as; the directory above keeps other users of the machine out.
            path.chmod(0o777)
        if self._owner is not None and path.stat().st_uid == 0:
            os.chown(path, *self._owner)

    def remove(self) -> None:
        """Delete all but persistent data, which is elsewhere."""
        shutil.rmtree(self._directory, ignore_errors=True)


class _Reason(Exception):
    pass


def _on_this_machine(text: str, volume: Object, root: Path) -> Path:
    """Where a volume is. Those that we make say it without the folder of the cluster, which may be moved."""
    path = Path(text)
    if path.is_relative_to(NODE_VOLUMES):
        return root / path.relative_to(NODE_VOLUMES)
    # An earlier version wrote the whole path, as it was when the volume was made.
    return root / path.name if path.name == (volume["spec"].get("claimRef") or {}).get("uid") else path


def _mode(source: Object) -> int:
    mode = source.get("defaultMode")
    return DEFAULT_MODE if mode is None else int(mode)


def _selected(content: dict[str, bytes], source: Object, mode: int, missing: str) -> dict[str, File]:
    items = source.get("items")
    if not items:
        return {key: File(data, mode) for key, data in content.items()}
    files = {}
    for item in items:
        if item["key"] not in content:
            if source.get("optional"):
                continue
            raise _Reason(missing.format(key=item["key"]))
        files[item["path"]] = File(content[item["key"]], mode if item.get("mode") is None else int(item["mode"]))
    return files


def sources(pod: Object) -> set[tuple[str, str]]:
    """The ConfigMaps and Secrets (as kind and name) that a pod uses, so that a change of one can be passed on."""
    found: set[tuple[str, str]] = set()
    for volume in pod["spec"].get("volumes") or []:
        parts: Iterable[Object] = [volume, *((volume.get("projected") or {}).get("sources") or [])]
        for part in parts:
            if part.get("configMap"):
                found.add(("ConfigMap", part["configMap"].get("name", "")))
            if part.get("secret"):
                found.add(("Secret", part["secret"].get("secretName") or part["secret"].get("name", "")))
    for container in containers(pod):
        references = [
            *(container.get("envFrom") or []),
            *((item.get("valueFrom") or {}) for item in container.get("env") or []),
        ]
        for reference in references:
            for key, kind in _REFERENCES.items():
                if reference.get(key):
                    found.add((kind, reference[key].get("name", "")))
    return found
