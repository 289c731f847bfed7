"""Pod Security labels: what each level forbids, what is only warned of, and what happens to pods that are there already."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.kube.builtin import Deployment, Namespace, Pod
from modelyard.kube.kinds import Object
from tests.cluster.api.calls import MERGE, Answer, call, deployment
from tests.cluster.conftest import Api

LABEL = "pod-security.kubernetes.io/"
GOOD: Object = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def container(name: str = "c", context: Object | None = None, **more: Any) -> Object:
    made: Object = {"name": name, "image": "img", **more}
    return made | ({"securityContext": context} if context is not None else {})


def pod(*containers: Object, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    metadata = {"name": "p"} | ({"annotations": annotations} if annotations else {})
    return {"metadata": metadata, "spec": {"containers": list(containers) or [container()], **spec}}


async def labelled(api: Api, **labels: str) -> str:
    """A namespace with Pod Security labels (`enforce_version` stands for `enforce-version`)."""
    name = await api.namespace("ps")
    wanted = {f"{LABEL}{mode.replace('_', '-')}": value for mode, value in labels.items()}
    await api.client.patch(Namespace, "", name, {"metadata": {"labels": wanted}})
    return name


async def create(api: Api, namespace: str, body: Object) -> Answer:
    # Nothing is stored: whether the pod's account is there already does not matter then, nor what runs there.
    body["spec"].setdefault("automountServiceAccountToken", False)
    return await call(api, "POST", Pod.path(namespace), body, dryRun="All")


def warnings(answer: Answer) -> list[str]:
    said = answer.headers.get("Warning") or answer.headers.get("warning") or ""
    return [part.removeprefix('299 - "').removesuffix('"').replace('\\"', '"') for part in said.split("\n") if part]


BASELINE: list[tuple[Object, str]] = [
    (
        pod(hostNetwork=True, hostPID=True, hostIPC=True),
        "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)",
    ),
    (
        pod(container("a", {"privileged": True}), container("b", {"privileged": True})),
        'privileged (containers "a", "b" must not set securityContext.privileged=true)',
    ),
    (
        pod(container("a", {"capabilities": {"add": ["SYS_ADMIN", "NET_ADMIN", "CHOWN"]}})),
        'non-default capabilities (container "a" must not include "NET_ADMIN", "SYS_ADMIN" in securityContext.capabilities.add)',
    ),
    (pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}]), 'hostPath volumes (volume "v")'),
    (
        pod(container("a", ports=[{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 81}])),
        'hostPort (container "a" uses hostPorts 80, 81)',
    ),
    (
        pod(container("a", livenessProbe={"httpGet": {"port": 80, "host": "10.0.0.1"}})),
        'probe or lifecycle host (container "a" uses probe or lifecycle host "10.0.0.1")',
    ),
    (
        pod(container("a", {"seLinuxOptions": {"type": "spc_t", "user": "u", "role": "r"}})),
        'seLinuxOptions (container "a" set forbidden securityContext.seLinuxOptions: type "spc_t"; user may not be set; '
        "role may not be set)",
    ),
    (
        pod(
            container("a", {"seccompProfile": {"type": "Unconfined"}}),
            securityContext={"seccompProfile": {"type": "Unconfined"}},
        ),
        'seccompProfile (pod and container "a" must not set securityContext.seccompProfile.type to "Unconfined")',
    ),
    (
        pod(securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}),
        "forbidden sysctls (kernel.msgmax)",
    ),
    (
        pod(container("a", {"appArmorProfile": {"type": "Unconfined"}})),
        'forbidden AppArmor profile (container "a" must not set AppArmor profile type to "Unconfined")',
    ),
    (
        pod(container(), initContainers=[container("i", {"privileged": True})]),
        'privileged (container "i" must not set securityContext.privileged=true)',
    ),
]


@pytest.mark.parametrize(("body", "said"), BASELINE, ids=[said.split(" (")[0] for _, said in BASELINE])
async def test_the_baseline_level_refuses(api: Api, body: Object, said: str) -> None:
    namespace = await labelled(api, enforce="baseline")
    answer = await create(api, namespace, body)
    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert answer.message == f'pods "p" is forbidden: violates PodSecurity "baseline:latest": {said}'


PLAIN = (
    'allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), '
    'unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), '
    'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), '
    'seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")'
)
RESTRICTED: list[tuple[Object, str]] = [
    (pod(), PLAIN),
    (pod(hostNetwork=True), f"host namespaces (hostNetwork=true), {PLAIN}"),
    (
        pod(container("c", {**GOOD, "capabilities": {"drop": ["ALL"], "add": ["CHOWN", "NET_BIND_SERVICE"]}})),
        'unrestricted capabilities (container "c" must not include "CHOWN" in securityContext.capabilities.add)',
    ),
    (
        pod(container("c", {**GOOD, "runAsUser": 0})),
        'runAsUser=0 (container "c" must not set runAsUser=0)',
    ),
    (
        pod(container("c", {**GOOD, "runAsNonRoot": False})),
        'runAsNonRoot != true (container "c" must not set securityContext.runAsNonRoot=false)',
    ),
    (
        pod(container("c", GOOD), volumes=[{"name": "h", "hostPath": {"path": "/"}}, {"name": "n", "nfs": {"server": "s", "path": "/"}}]),
        'restricted volume types (volumes "h", "n" use restricted volume types "hostPath", "nfs")',
    ),
]  # fmt: skip


@pytest.mark.parametrize(("body", "said"), RESTRICTED)
async def test_the_restricted_level_refuses(api: Api, body: Object, said: str) -> None:
    namespace = await labelled(api, enforce="restricted")
    answer = await create(api, namespace, body)
    assert answer.status == 403
    assert answer.message == f'pods "p" is forbidden: violates PodSecurity "restricted:latest": {said}'


@pytest.mark.parametrize(
    ("level", "body"),
    [
        ("privileged", pod(container("a", {"privileged": True}), hostNetwork=True)),
        ("baseline", pod()),
        ("restricted", pod(container("c", GOOD))),
        ("restricted", pod(container("c", {**GOOD, "runAsNonRoot": None}), securityContext={"runAsNonRoot": True})),
        ("restricted", pod(container("c", {**GOOD, "runAsNonRoot": None, "runAsUser": 0}), hostUsers=False)),
    ],
)
async def test_what_keeps_to_a_level_is_let_in(api: Api, level: str, body: Object) -> None:
    answer = await create(api, await labelled(api, enforce=level), body)
    assert answer.status == 201, answer.body
    assert not [text for text in warnings(answer) if "PodSecurity" in text]


async def test_an_older_version_of_the_rules_asks_for_less(api: Api) -> None:
    namespace = await labelled(api, enforce="restricted", enforce_version="v1.18")
    answer = await create(api, namespace, pod())
    assert answer.message == (
        'pods "p" is forbidden: violates PodSecurity "restricted:v1.18": allowPrivilegeEscalation != false (container "c" '
        "must set securityContext.allowPrivilegeEscalation=false), runAsNonRoot != true (pod or container "
        '"c" must set securityContext.runAsNonRoot=true)'
    )


async def test_the_warn_level_warns(api: Api) -> None:
    namespace = await labelled(api, warn="restricted")
    answer = await create(api, namespace, pod())
    assert answer.status == 201
    assert f'would violate PodSecurity "restricted:latest": {PLAIN}' in warnings(answer)


async def test_templates_are_warned_of_and_never_refused(api: Api) -> None:
    namespace = await labelled(api, enforce="baseline")
    body = deployment(namespace, "d")
    body["spec"]["template"]["spec"]["hostNetwork"] = True
    answer = await call(api, "POST", Deployment.path(namespace), body)
    assert answer.status == 201
    assert 'would violate PodSecurity "baseline:latest": host namespaces (hostNetwork=true)' in warnings(answer)


async def test_the_audit_level_lets_everything_in(api: Api) -> None:
    answer = await create(api, await labelled(api, audit="restricted"), pod(hostNetwork=True))
    assert (answer.status, [text for text in warnings(answer) if "PodSecurity" in text]) == (201, [])


@pytest.mark.parametrize(
    ("label", "value", "said"),
    [
        ("enforce", "strict", "must be one of privileged, baseline, restricted"),
        ("warn-version", "1.30", 'must be "latest" or "v1.x"'),
    ],
)
async def test_a_label_that_cannot_be_read_is_refused(api: Api, label: str, value: str, said: str) -> None:
    name = await api.namespace("ps")
    change = {"metadata": {"labels": {f"{LABEL}{label}": value}}}
    answer = await call(api, "PATCH", Namespace.path("", name), change, type=MERGE)
    assert answer.status == 422
    assert answer.causes == [(f"metadata.labels[{LABEL}{label}]", f'Invalid value: "{value}": {said}')]
    assert (
        answer.message
        == f'Namespace "{name}" is invalid: metadata.labels[{LABEL}{label}]: Invalid value: "{value}": {said}'
    )


async def test_a_new_level_warns_of_pods_that_are_there(api: Api) -> None:
    namespace = await api.namespace("ps")
    for name in ("b", "a", "c"):
        body = pod(hostNetwork=True)
        body["metadata"] = {"name": name, "namespace": namespace}
        await api.client.create(Pod, body)
    change = {"metadata": {"labels": {f"{LABEL}enforce": "baseline"}}}
    answer = await call(api, "PATCH", Namespace.path("", namespace), change, type=MERGE)
    assert answer.status == 200
    # A client sees one of several headers of the same name; the unit test of `existing_pods` sees both.
    said = f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "baseline:latest"'
    (seen,) = warnings(answer)
    assert seen in (said, "a (and 2 other pods): host namespaces")


async def test_a_pod_that_is_there_keeps_its_labels_but_gets_no_other_image(api: Api) -> None:
    namespace = await api.namespace("ps")
    body = pod(hostNetwork=True)
    body["metadata"]["namespace"] = namespace
    await api.client.create(Pod, body)
    await api.client.patch(Namespace, "", namespace, {"metadata": {"labels": {f"{LABEL}enforce": "baseline"}}})
    path = Pod.path(namespace, "p")
    assert (await call(api, "PATCH", path, {"metadata": {"labels": {"a": "b"}}}, type=MERGE)).status == 200
    change = {"spec": {"containers": [container(image="other")]}}
    answer = await call(api, "PATCH", path, change, type="application/strategic-merge-patch+json")
    assert (answer.status, 'violates PodSecurity "baseline:latest"' in answer.message) == (403, True)


async def test_an_ephemeral_container_is_held_to_the_level(api: Api) -> None:
    namespace = await labelled(api, enforce="baseline")
    body = pod()
    body["metadata"]["namespace"] = namespace
    await api.client.create(Pod, body)
    more = {"spec": {"ephemeralContainers": [container("debug", {"privileged": True})]}}
    answer = await call(
        api,
        "PATCH",
        Pod.path(namespace, "p", "ephemeralcontainers"),
        more,
        type="application/strategic-merge-patch+json",
    )
    assert answer.status == 403
    assert 'privileged (container "debug" must not set securityContext.privileged=true)' in answer.message
