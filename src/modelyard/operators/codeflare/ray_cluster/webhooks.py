"""The webhooks of RayClusters: what is put into their pods, and what may not be taken out again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from modelyard.kube.kinds import Object
from modelyard.kube.objects import annotations_of, is_deleting, lookup, metadata_of, namespace_of
from modelyard.kube.openshift import is_openshift
from modelyard.operators.codeflare.config import KubeRaySettings, Settings
from modelyard.operators.codeflare.ray_cluster.injection import (
    Expected,
    Injection,
    expected_certificates,
    expected_proxy,
)
from modelyard.operators.codeflare.ray_cluster.names import VERSION, Names, RayCluster
from modelyard.operators.codeflare.ray_cluster.rules import HEAD, name_errors, spec_errors
from modelyard.runtime.declaring.settings import SettingError
from modelyard.runtime.webhooks import AdmissionRequest, Answer, Denied, FieldError, Webhook, invalid
from modelyard.version import version

ENDS = ("/mutate-ray-io-v1-raycluster", "/validate-ray-io-v1-raycluster")


def ray_cluster_webhooks(settings: Settings) -> list[Webhook]:
    """At upstream's paths, under upstream's names."""
    return [
        Webhook(
            "mraycluster.ray.openshift.ai",
            "mutating",
            ENDS[0],
            lambda request: secure(request, settings),
            kinds=[RayCluster],
            configuration="codeflare-operator-mutating-webhook-configuration",
            reads=[settings.followed],
        ),
        Webhook(
            "vraycluster.ray.openshift.ai",
            "validating",
            ENDS[1],
            lambda request: check(request, settings),
            kinds=[RayCluster],
            configuration="codeflare-operator-validating-webhook-configuration",
            reads=[settings.followed],
        ),
    ]


def secure(request: AdmissionRequest, settings: Settings) -> Answer:
    """The cluster with its proxy and its certificates."""
    cluster = request.object
    if cluster is None or is_deleting(cluster):
        return None
    injection = _injection(request, cluster, settings)
    if isinstance(injection, Denied):
        # What is there already must stay changeable, or Kueue could not suspend it.
        return injection if request.operation == "CREATE" else None
    if errors := _errors_before(request, cluster):
        return _refused(cluster, errors)
    cluster["metadata"]["annotations"] = {**annotations_of(cluster), VERSION: version()}
    injection.into(cluster)
    return cluster


def check(request: AdmissionRequest, settings: Settings) -> Answer:
    """Yes; or no, with every reason."""
    cluster = request.object
    if cluster is None or is_deleting(cluster):
        return None  # Whatever is wrong with it must not keep it from going.
    injection = _injection(request, cluster, settings)
    if isinstance(injection, Denied):
        return injection if request.operation == "CREATE" else None
    errors = _errors_before(request, cluster)
    if not errors:
        errors = list(changed(injection, cluster, certificates=request.operation == "UPDATE"))
    return _refused(cluster, errors) if errors else None


def changed(injection: Injection, cluster: Object, *, certificates: bool) -> Iterator[FieldError]:
    """What of ours is no longer as it was put there."""
    expected: list[Expected] = []
    if injection.kuberay.oauth:
        expected += expected_proxy(injection, cluster)
    if certificates and injection.kuberay.mtls:
        expected += expected_certificates(injection, cluster)
    said = set()
    for one in expected:
        if (problem := one.problem) and (one.path, problem) not in said:
            said.add((one.path, problem))
            yield FieldError(one.path, problem)
    account = lookup(cluster, "spec", "headGroupSpec", "template", "spec", "serviceAccountName")
    if injection.kuberay.oauth and account != injection.names.account:
        text = f'Invalid value: "{account or ""}": RayCluster head group service account is immutable'
        yield FieldError(f"{HEAD}.template.spec.serviceAccountName", text)


def _errors_before(request: AdmissionRequest, cluster: Object) -> list[FieldError]:
    errors = list(spec_errors(cluster))
    if request.operation == "CREATE":
        errors += name_errors(cluster, request.namespace or namespace_of(cluster))
    return errors


def _injection(request: AdmissionRequest, cluster: Object, settings: Settings) -> Injection | Denied:
    try:
        kuberay = KubeRaySettings.of(settings.document(request.reader))
    except SettingError as error:
        return Denied(f"RayClusters cannot be secured: {error}", code=500, reason="InternalError")
    names = Names.of(cluster, request.namespace)
    return Injection(replace(names, hashed=True), settings, kuberay, is_openshift(request.reader))


def _refused(cluster: Object, errors: list[FieldError]) -> Denied:
    name = str(metadata_of(cluster).get("name") or "")
    return replace(invalid(RayCluster, name, errors), code=403, reason="Forbidden")
