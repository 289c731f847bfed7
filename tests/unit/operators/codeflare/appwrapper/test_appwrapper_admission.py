"""What the validating webhook says beyond the scenarios: warnings, names, and users that nobody can be asked about."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.operators.codeflare.appwrapper.config import AppWrapperSettings
from modelyard.operators.codeflare.appwrapper.webhooks import sanitized, validate
from modelyard.runtime.testing import FakeWorld
from modelyard.runtime.testing.kit import FakeAccessReviews
from modelyard.runtime.webhooks import AdmissionRequest, Allowed, Denied
from tests.cluster.appwrapper.scenarios.admission import job_set
from tests.cluster.appwrapper.scenarios.scene import faults, pod, template_of


async def answer(*components: Object, name: str = "demo", reachable: bool = True, **changes: Any) -> Allowed | Denied:
    obj = {"metadata": {"name": name, "namespace": "team", **changes}, "spec": {"components": list(components)}}
    access = FakeAccessReviews(lambda asked: asked.kind.plural != "*", reachable=reachable)
    request = AdmissionRequest("CREATE", obj, namespace="team", user="alice", reader=FakeWorld(), access=access)
    found = await validate(request, AppWrapperSettings(enabled=True))
    assert isinstance(found, Allowed | Denied)
    return found


def refusal(found: Allowed | Denied) -> str:
    assert isinstance(found, Denied)
    return found.message


async def test_a_misspelt_annotation_is_warned_of() -> None:
    found = await answer(pod(), annotations=faults(delectionOnFailureGracePeriodDuration="1h"))
    assert isinstance(found, Allowed)
    assert "did you mean workload.codeflare.dev.appwrapper/deletionOnFailure" in found.warnings[0]


async def test_a_kind_that_the_plane_may_not_create_is_warned_of() -> None:
    found = await answer(pod(), {"template": template_of(builtin.ConfigMap, "c")})
    assert isinstance(found, Allowed)
    assert "the role that comes with the plane may not create configmaps" in found.warnings[0]


async def test_a_name_that_fits_no_label_is_refused() -> None:
    assert "metadata.name: Invalid value" in refusal(await answer(pod(), name="a" * 64))


async def test_a_kind_without_a_namespace_is_refused() -> None:
    role = template_of(builtin.ClusterRole, "r")
    assert "ClusterRole belongs to no namespace" in refusal(await answer(pod(), {"template": role}))


async def test_for_a_kind_that_is_not_there_yet_all_rights_are_needed() -> None:
    said = refusal(await answer(job_set()))
    assert "User alice is not authorized to create * in team; the API does not serve jobset.x-k8s.io/v1alpha2" in said


async def test_nobody_is_let_through_unasked() -> None:
    said = refusal(await answer(pod(), reachable=False))
    assert "spec.components[0].template: Internal error: " in said


@pytest.mark.parametrize(
    "component",
    [
        {},
        {"template": None},
        {"template": "x"},
        {"template": {"kind": "Pod"}},
        {"template": {"apiVersion": 1, "kind": []}},
    ],
    ids=str,
)
async def test_an_odd_component_gets_a_clear_answer(component: Object) -> None:
    assert "spec.components[0].template: Invalid value: failed to decode as JSON" in refusal(await answer(component))


@pytest.mark.parametrize(
    ("text", "label"),
    [("kube:admin", "kube_admin"), ("--a--", "a"), ("", ""), ("é" * 40, ""), ("a" * 70, "a" * 63)],
)
def test_what_of_a_user_name_fits_into_a_label(text: str, label: str) -> None:
    assert sanitized(text) == label
