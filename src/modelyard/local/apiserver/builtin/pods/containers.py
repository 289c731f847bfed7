"""What Kubernetes refuses in a pod's containers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from modelyard.kube import names
from modelyard.kube.kinds import Object
from modelyard.kube.quantities import QuantityError, parse
from modelyard.local.apiserver.builtin import checks
from modelyard.local.apiserver.builtin.pods.volumes import (
    ENV_FIELDS,
    descending_path,
    field_reference,
    no_backsteps,
)
from modelyard.local.apiserver.requests.problems import (
    Cause,
    GoStruct,
    duplicate,
    field_forbidden,
    invalid_value,
    not_supported,
    required,
    value_not_found,
)

_PULL = ("Always", "IfNotPresent", "Never")
_TERMINATION = ("File", "FallbackToLogsOnError")
_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_SCHEMES = ("HTTP", "HTTPS")
_ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_ENV_RESOURCES = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage",
    "requests.memory",
)  # fmt: skip
_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})
_CONTEXT_FIELDS = (
    "capabilities", "privileged", "SELinuxOptions", "windowsOptions", "runAsUser", "runAsGroup", "runAsNonRoot",
    "readOnlyRootFilesystem", "allowPrivilegeEscalation", "procMount", "seccompProfile", "appArmorProfile",
)  # fmt: skip
_INIT_ONLY = "may not be set for init containers without restartPolicy=Always"

Volumes = Mapping[str, Object]


def validate_containers(spec: Object, volumes: Volumes, field: str) -> list[Cause]:
    containers = spec.get("containers") or ()
    if not containers:
        found = [required(f"{field}.containers")]
    else:
        found = _main_containers(containers, volumes, f"{field}.containers")
    found += _init_containers(spec.get("initContainers") or (), containers, volumes, f"{field}.initContainers")
    found += _sleeps(spec, field)
    return found + _ephemeral(spec, volumes, f"{field}.ephemeralContainers")


def _main_containers(containers: Sequence[Object], volumes: Volumes, field: str) -> list[Cause]:
    found: list[Cause] = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        path = f"{field}[{index}]"
        found += _any_container(container, volumes, path)
        name = container.get("name", "")
        if name in seen:
            found.append(duplicate(f"{path}.name", name))
        seen.add(name)
        found += _life(container, path)
    return found + _host_ports(containers, field)


def _init_containers(inits: Sequence[Object], mains: Sequence[Object], volumes: Volumes, field: str) -> list[Cause]:
    found: list[Cause] = []
    seen = {container.get("name", "") for container in mains}
    for index, container in enumerate(inits):
        path = f"{field}[{index}]"
        found += _any_container(container, volumes, path)
        name = container.get("name", "")
        if name in seen:
            found.append(duplicate(f"{path}.name", name))
        elif name:
            seen.add(name)
        if container.get("restartPolicy") == "Always":
            found += _life(container, path)
            continue
        for forbidden in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
            if container.get(forbidden) is not None:
                found.append(field_forbidden(f"{path}.{forbidden}", _INIT_ONLY))
    return found


def _ephemeral(spec: Object, volumes: Volumes, field: str) -> list[Cause]:
    found: list[Cause] = []
    others = {c.get("name", "") for group in ("containers", "initContainers") for c in spec.get(group) or ()}
    seen = set(others)
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        path = f"{field}[{index}]"
        found += _any_container(container, volumes, path)
        name = container.get("name", "")
        if name in seen:
            found.append(duplicate(f"{path}.name", name))
        seen.add(name)
        target = container.get("targetContainerName", "")
        if target and target not in others:
            found.append(value_not_found(f"{path}.targetContainerName", target))
    return found


def _any_container(container: Object, volumes: Volumes, path: str) -> list[Cause]:
    found = checks.needs_name(container.get("name", ""), f"{path}.name", names.dns_label)
    if not container.get("image"):
        found.append(required(f"{path}.image"))
    if container.get("terminationMessagePolicy") not in _TERMINATION:
        value = container.get("terminationMessagePolicy", "")
        found.append(not_supported(f"{path}.terminationMessagePolicy", value, _TERMINATION))
    if container.get("ports"):
        found += _ports(container["ports"], f"{path}.ports")
    if container.get("env"):
        found += _env(container["env"], f"{path}.env")
    if container.get("envFrom"):
        found += _env_from(container["envFrom"], f"{path}.envFrom")
    devices = container.get("volumeDevices") or ()
    if container.get("volumeMounts"):
        found += _mounts(container, devices, volumes, f"{path}.volumeMounts")
    if devices:
        found += _devices(container, devices, volumes, f"{path}.volumeDevices")
    if container.get("imagePullPolicy") not in _PULL:
        found.append(not_supported(f"{path}.imagePullPolicy", container.get("imagePullPolicy", ""), _PULL))
    found += validate_resources(container.get("resources") or {}, f"{path}.resources")
    return found + _security_context(container.get("securityContext") or {}, f"{path}.securityContext")


def _ports(ports: Sequence[Object], field: str) -> list[Cause]:
    found: list[Cause] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        path = f"{field}[{index}]"
        name = port.get("name", "")
        if name:
            if wrong := names.port_name(name):
                found += checks.told(f"{path}.name", name, wrong)
            elif name in seen:
                found.append(duplicate(f"{path}.name", name))
            else:
                seen.add(name)
        if not port.get("containerPort"):
            found.append(required(f"{path}.containerPort"))
        else:
            found += checks.port_number(port["containerPort"], f"{path}.containerPort")
        if port.get("hostPort"):
            found += checks.port_number(port["hostPort"], f"{path}.hostPort")
        if port.get("protocol") not in checks.PROTOCOLS:
            found.append(not_supported(f"{path}.protocol", port.get("protocol", ""), checks.PROTOCOLS))
    return found


def _host_ports(containers: Sequence[Object], field: str) -> list[Cause]:
    found: list[Cause] = []
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for place, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if key in taken:
                found.append(duplicate(f"{field}[{index}].ports[{place}].hostPort", key))
            taken.add(key)
    return found


def _env(variables: Sequence[Object], field: str) -> list[Cause]:
    found: list[Cause] = []
    for index, variable in enumerate(variables):
        path = f"{field}[{index}]"
        name = variable.get("name", "")
        if not name:
            found.append(required(f"{path}.name"))
        else:
            found += checks.told(f"{path}.name", name, names.env_name(name))
        if variable.get("valueFrom") is not None:
            found += _env_source(variable, f"{path}.valueFrom")
    return found


def _env_source(variable: Object, field: str) -> list[Cause]:
    source = variable["valueFrom"]
    given = [name for name in _ENV_SOURCES if source.get(name) is not None]
    found: list[Cause] = []
    for name in given:
        reference, path = source[name], f"{field}.{name}"
        if name == "fieldRef":
            found += field_reference(reference, path, ENV_FIELDS)
        elif name == "resourceFieldRef":
            wanted = reference.get("resource", "")
            if not wanted:
                found.append(required(f"{path}.resource"))
            elif wanted not in _ENV_RESOURCES and not wanted.startswith(("limits.hugepages-", "requests.hugepages-")):
                found.append(not_supported(f"{path}.resource", wanted, _ENV_RESOURCES))
        elif name in ("configMapKeyRef", "secretKeyRef"):
            found += checks.told(
                f"{path}.name", reference.get("name", ""), names.dns_subdomain(reference.get("name", ""))
            )
            key = reference.get("key", "")
            found += [required(f"{path}.key")] if not key else checks.told(f"{path}.key", key, names.config_key(key))
    if not given:
        detail = (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        )
        found.append(invalid_value(field, "", detail))
    elif variable.get("value"):
        found.append(invalid_value(field, "", "may not be specified when `value` is not empty"))
    elif len(given) > 1:
        found.append(invalid_value(field, "", "may not have more than one field specified at a time"))
    return found


def _env_from(sources: Sequence[Object], field: str) -> list[Cause]:
    found: list[Cause] = []
    for index, source in enumerate(sources):
        path = f"{field}[{index}]"
        prefix = source.get("prefix", "")
        if prefix:
            found += checks.told(f"{path}.prefix", prefix, names.env_name(prefix))
        given = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for name in given:
            found += checks.needs_name(source[name].get("name", ""), f"{path}.{name}.name", names.dns_subdomain)
        if not given:
            found.append(invalid_value(field, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            found.append(invalid_value(field, "", "may not have more than one field specified at a time"))
    return found


def _mounts(container: Object, devices: Sequence[Object], volumes: Volumes, field: str) -> list[Cause]:
    found: list[Cause] = []
    places: set[str] = set()
    device_names = {device.get("name", "") for device in devices}
    device_paths = {device.get("devicePath", "") for device in devices}
    for index, mount in enumerate(container["volumeMounts"]):
        path = f"{field}[{index}]"
        name, place = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            found.append(required(f"{path}.name"))
        if name not in volumes:
            found.append(value_not_found(f"{path}.name", name))
        if not place:
            found.append(required(f"{path}.mountPath"))
        if place in places:
            found.append(invalid_value(f"{path}.mountPath", place, "must be unique"))
        places.add(place)
        if name in device_names:
            found.append(invalid_value(f"{path}.name", name, "must not already exist in volumeDevices"))
        if place in device_paths:
            detail = "must not already exist as a path in volumeDevices"
            found.append(invalid_value(f"{path}.mountPath", place, detail))
        if mount.get("subPath"):
            found += descending_path(mount["subPath"], f"{field}.subPath")
        if mount.get("subPathExpr"):
            if mount.get("subPath"):
                detail = "subPathExpr and subPath are mutually exclusive"
                found.append(invalid_value(f"{path}.subPathExpr", mount["subPathExpr"], detail))
            found += descending_path(mount["subPathExpr"], f"{field}.subPathExpr")
        found += _propagation(mount, container, f"{field}.mountPropagation")
    return found


def _propagation(mount: Object, container: Object, field: str) -> list[Cause]:
    mode = mount.get("mountPropagation")
    if mode is None:
        return []
    supported = ("Bidirectional", "HostToContainer", "None")
    found = checks.one_of(mode, field, supported)
    if mode == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        detail = "Bidirectional mount propagation is available only to privileged containers"
        found.append(field_forbidden(field, detail))
    return found


def _devices(container: Object, devices: Sequence[Object], volumes: Volumes, field: str) -> list[Cause]:
    found: list[Cause] = []
    mounted = {mount.get("name", "") for mount in container.get("volumeMounts") or ()}
    for index, device in enumerate(devices):
        path = f"{field}[{index}]"
        name, place = device.get("name", ""), device.get("devicePath", "")
        if not name:
            found.append(required(f"{path}.name"))
        volume = volumes.get(name)
        if volume is None:
            found.append(value_not_found(f"{path}.name", name))
        elif "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            found.append(invalid_value(f"{path}.name", name, detail))
        if not place:
            found.append(required(f"{path}.devicePath"))
        elif no_backsteps(place, path):
            found.append(invalid_value(f"{path}.devicePath", place, "can not contain backsteps ('..')"))
        if name in mounted:
            found.append(invalid_value(f"{path}.name", name, "must not already exist in volumeMounts"))
    return found


_HUGE_PAGES = "hugepages-"


def validate_resources(resources: Object, field: str) -> list[Cause]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    found: list[Cause] = []
    for name, amount in sorted(limits.items()):
        found += _amount(name, amount, f"{field}.limits[{name}]")
    for name, amount in sorted(requests.items()):
        found += _amount(name, amount, f"{field}.requests[{name}]")
        overcommit = _native(name) and not name.startswith("hugepages-")
        if name in limits:
            wanted, most = parse(amount), parse(limits[name])
            if wanted != most and not overcommit:
                detail = f"must be equal to {name} limit of {limits[name]}"
                found.append(invalid_value(f"{field}.requests", amount, detail))
            elif wanted > most:
                detail = f"must be less than or equal to {name} limit of {limits[name]}"
                found.append(invalid_value(f"{field}.requests", amount, detail))
        elif not overcommit:
            found.append(required(f"{field}.limits", "Limit must be set for non overcommitable resources"))
    used = {*limits, *requests}
    if any(name.startswith(_HUGE_PAGES) for name in used) and not used & {"cpu", "memory"}:
        found.append(field_forbidden(field, "HugePages require cpu or memory"))
    return found


def _native(name: str) -> bool:
    """Whether Kubernetes itself knows the resource; others are counted in whole numbers and never shared."""
    return "/" not in name or "kubernetes.io/" in name


def _amount(name: str, amount: str, field: str) -> list[Cause]:
    found = checks.qualified_name(name, field)
    if not found and "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
        found.append(invalid_value(field, name, "must be a standard resource type or fully qualified"))
        found.append(invalid_value(field, name, "must be a standard resource for containers"))
    quantity = parse(amount)
    if quantity.nanos < 0:
        found.append(invalid_value(field, amount, checks.NOT_NEGATIVE))
    if not _native(name) and quantity.milli % 1000:
        found.append(invalid_value(field, amount, checks.NOT_INTEGER))
    if name.startswith(_HUGE_PAGES) and not _whole_pages(name.removeprefix(_HUGE_PAGES), amount):
        found.append(invalid_value(field, amount, f"{amount} is not positive integer multiple of {name}"))
    return found


def _whole_pages(size: str, amount: str) -> bool:
    try:
        page = parse(size)
    except QuantityError:
        return False
    return page.nanos > 0 and page.milli % 1000 == 0 and -(-parse(amount).milli // 1000) % (page.milli // 1000) == 0


def _security_context(context: Object, field: str) -> list[Cause]:
    found: list[Cause] = []
    for name in ("runAsUser", "runAsGroup"):
        value = context.get(name)
        if value is not None and not 0 <= value <= checks.MAX_INT32:
            found.append(invalid_value(f"{field}.{name}", value, names.in_range(0, checks.MAX_INT32)))
    found += seccomp_profile(context.get("seccompProfile"), f"{field}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False and context.get("privileged"):
        detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        shown = GoStruct({name[0].upper() + name[1:]: context.get(name) for name in _CONTEXT_FIELDS})
        found.append(invalid_value(field, shown, detail))
    return found


def seccomp_profile(profile: Object | None, field: str) -> list[Cause]:
    if profile is None:
        return []
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    found: list[Cause] = []
    if not kind:
        found.append(required(f"{field}.type", "type is required when seccompProfile is set"))
    elif kind not in ("Localhost", "RuntimeDefault", "Unconfined"):
        found.append(not_supported(f"{field}.type", kind, ("Localhost", "RuntimeDefault", "Unconfined")))
    if kind == "Localhost":
        if local is None:
            found.append(required(f"{field}.localhostProfile", "must be set when seccomp type is Localhost"))
        else:
            found += descending_path(local, f"{field}.localhostProfile")
    elif local is not None:
        shown = GoStruct(Type=kind, LocalhostProfile=local)
        detail = "can only be set when seccomp type is Localhost"
        found.append(invalid_value(f"{field}.localhostProfile", shown, detail))
    return found


def _life(container: Object, path: str) -> list[Cause]:
    found: list[Cause] = []
    for name in ("postStart", "preStop"):
        hook = (container.get("lifecycle") or {}).get(name)
        if hook is not None:
            found += _handler(hook, f"{path}.lifecycle.{name}")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is None:
            continue
        place = f"{path}.{name}"
        found += _handler(probe, place)
        for number in _NUMBERS:
            found += checks.not_negative(probe.get(number, 0), f"{place}.{number}")
        grace = probe.get("terminationGracePeriodSeconds")
        if grace is not None and grace <= 0:
            found.append(invalid_value(f"{place}.terminationGracePeriodSeconds", grace, "must be greater than 0"))
        if name == "readinessProbe":
            if grace is not None:
                detail = "must not be set for readinessProbes"
                found.append(invalid_value(f"{place}.terminationGracePeriodSeconds", grace, detail))
        elif probe.get("successThreshold") != 1:
            found.append(invalid_value(f"{place}.successThreshold", probe.get("successThreshold", 0), "must be 1"))
    return found


def _sleeps(spec: Object, field: str) -> list[Cause]:
    """A hook may not sleep for longer than the pod has to end."""
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is None:
        return []
    found: list[Cause] = []
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group) or ()):
            for name, hook in (container.get("lifecycle") or {}).items():
                seconds = ((hook or {}).get("sleep") or {}).get("seconds") if isinstance(hook, dict) else None
                if seconds is not None and not 0 <= seconds <= grace:
                    detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
                    place = f"{field}.{group}[{index}].lifecycle.{name}.sleep"
                    found.append(invalid_value(place, seconds, detail))
    return found


def _handler(handler: Object, field: str) -> list[Cause]:
    found: list[Cause] = []
    given = 0
    for name in ("exec", "httpGet", "tcpSocket", "grpc", "sleep"):
        action = handler.get(name)
        if action is None:
            continue
        path = f"{field}.{name}"
        if given:
            found.append(field_forbidden(path, "may not specify more than 1 handler type"))
            continue
        given += 1
        if name == "exec":
            if not action.get("command"):
                found.append(required(f"{path}.command"))
        elif name == "httpGet":
            found += checks.port_or_name(action.get("port", 0), f"{path}.port")
            found += checks.one_of(action.get("scheme", ""), f"{path}.scheme", _SCHEMES)
            for header in action.get("httpHeaders") or ():
                found += checks.told(
                    f"{path}.httpHeaders", header.get("name", ""), names.http_header(header.get("name", ""))
                )
        elif name in ("tcpSocket", "grpc"):
            found += checks.port_or_name(action.get("port", 0), f"{path}.port")
    if not given:
        found.append(required(field, "must specify a handler type"))
    return found
