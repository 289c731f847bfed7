"""Warnings about pods that a new Pod Security level would not have let in, and rules of older versions."""

from __future__ import annotations

from modelyard.kube.builtin import Namespace, Pod
from modelyard.kube.kinds import Object
from modelyard.local.apiserver import ApiServer
from modelyard.local.apiserver.admission.pod_security import Standard, existing_pods
from modelyard.local.apiserver.admission.pod_security_checks import LATEST, violations


async def test_pods_with_the_same_violations_share_a_warning() -> None:
    async with ApiServer() as server:
        client = server.client()
        await client.create(Namespace, {"metadata": {"name": "team"}})
        for name, spec in (
            ("b", {"hostNetwork": True}),
            ("a", {"hostNetwork": True}),
            ("c", {}),
            ("d", {"hostPID": True}),
        ):
            containers: list[Object] = [{"name": "c", "image": "i"}]
            if name == "d":
                containers[0]["securityContext"] = {"privileged": True}
            await client.create(
                Pod, {"metadata": {"name": name, "namespace": "team"}, "spec": {"containers": containers, **spec}}
            )
        said = existing_pods("team", Standard("baseline"), server.store.items(Pod.resource, "team"))
    assert said == [
        'existing pods in namespace "team" violate the new PodSecurity enforce level "baseline:latest"',
        "a (and 1 other pod): host namespaces",
        "d: host namespaces, privileged",
    ]


def test_old_rules_read_seccomp_from_annotations() -> None:
    metadata = {"annotations": {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}}
    spec: Object = {"containers": [{"name": "c", "image": "i"}]}
    (found,) = violations("baseline", 18, metadata, spec)
    assert str(found) == 'seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod="unconfined")'
    assert violations("baseline", LATEST, metadata, spec) == []
