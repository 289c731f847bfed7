"""Made-up AppWrappers: whatever they wrap, a pass ends in a decision, the webhook answers, and what is someone else's stays as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modelyard.kube import builtin
from modelyard.kube.kinds import Key, Object
from modelyard.operators.codeflare.appwrapper.api import ANNOTATIONS, APPWRAPPER, LABEL, Phase
from modelyard.operators.codeflare.appwrapper.config import AppWrapperSettings
from modelyard.operators.codeflare.appwrapper.controller import appwrapper_controller
from modelyard.operators.codeflare.appwrapper.webhooks import validate
from modelyard.operators.codeflare.config import CONFIG_MAP, Settings
from modelyard.runtime.declaring.operator_metrics import Count
from modelyard.runtime.testing import FakeWorld, bench
from modelyard.runtime.testing.kit import FakeAccessReviews
from modelyard.runtime.webhooks import AdmissionRequest, Allowed, Denied
from tests.cluster.appwrapper.scenarios.scene import pod_spec

NS, FOREIGN = "team", "theirs"
_odd = st.one_of(st.none(), st.booleans(), st.integers(-3, 9), st.text(max_size=5), st.just([]), st.just({"a": 1}))
_spec = st.one_of(st.just(pod_spec()), _odd)
_template = st.fixed_dictionaries({"spec": _spec}, optional={"metadata": _odd})
_counts = st.one_of(st.integers(-2, 20), _odd)
_specs = st.one_of(
    _odd,
    st.just(pod_spec()),
    st.fixed_dictionaries(
        {"template": st.one_of(_template, _odd)},
        optional={"replicas": _counts, "parallelism": _counts, "completions": _counts},
    ),
    st.fixed_dictionaries(
        {"headGroupSpec": st.fixed_dictionaries({"template": _template})},
        optional={"workerGroupSpecs": st.one_of(_odd, st.lists(st.one_of(_odd, _template), max_size=2))},
    ),
    st.fixed_dictionaries({"replicatedJobs": st.lists(st.one_of(_odd, _template), max_size=2)}),
)
_kinds = st.sampled_from(
    [
        ("v1", "Pod"), ("v1", "Service"), ("v1", "ConfigMap"), ("apps/v1", "Deployment"), ("batch/v1", "Job"),
        ("ray.io/v1", "RayCluster"), ("jobset.x-k8s.io/v1alpha2", "JobSet"), ("rbac.authorization.k8s.io/v1", "ClusterRole"),
        ("example.com/v1", "Other"),
    ]
)  # fmt: skip
_names: st.SearchStrategy[Object] = st.one_of(
    st.fixed_dictionaries({"name": st.sampled_from(["a", "b", FOREIGN])}),
    st.fixed_dictionaries({"generateName": st.sampled_from(["a-", "b"])}),
    st.just({}),
)
_paths = st.sampled_from(
    ["template", "template.spec.template", "template.spec", "", "x", "template[0]", "template.spec.replicatedJobs[0]"]
)
_sets = st.lists(
    st.fixed_dictionaries({"path": _paths}, optional={"replicas": st.integers(-1, 5)}), min_size=1, max_size=2
)
_texts = st.dictionaries(st.sampled_from(["a", LABEL, "b"]), st.sampled_from(["", "1", "2"]), max_size=2)
_infos = st.lists(
    st.fixed_dictionaries({}, optional={"labels": _texts, "annotations": _texts, "nodeSelector": _texts}), max_size=3
)


@st.composite
def components(draw: st.DrawFn) -> Object:
    api_version, kind = draw(_kinds)
    template = {"apiVersion": api_version, "kind": kind, "metadata": draw(_names), "spec": draw(_specs)}
    found: Object = {"template": template}
    if draw(st.booleans()):
        found["podSets"] = draw(_sets)
    if draw(st.booleans()):
        found["podSetInfos"] = draw(_infos)
    return found


_annotations = st.dictionaries(
    st.sampled_from([f"{ANNOTATIONS}{name}" for name in ("retryLimit", "failureGracePeriodDuration", "terminalExitCodes", "x")]),
    st.sampled_from(["", "0s", "-1", "9h", "soon", "1,2", "🚂"]),
    max_size=3,
)  # fmt: skip
_appwrappers = st.fixed_dictionaries(
    {"components": st.lists(components(), max_size=3)}, optional={"suspend": st.booleans()}
)


def theirs() -> list[Object]:
    """Objects with the names and the label of ours."""
    metadata = {"name": FOREIGN, "namespace": NS, "labels": {LABEL: "any"}}
    return [
        {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": dict(metadata), "spec": {"theirs": True}}
        for kind in (builtin.Pod, builtin.Service, builtin.Deployment, builtin.Job)
    ]


def config() -> Object:
    text = yaml.safe_dump({"appwrapper": {"enabled": True}})
    metadata = {"name": CONFIG_MAP, "namespace": NS}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"config.yaml": text}}


def resource(spec: Object, annotations: Mapping[str, str]) -> Object:
    metadata = {"name": "any", "namespace": NS, "annotations": dict(annotations)}
    return {"apiVersion": APPWRAPPER.kind.api_version, "kind": "AppWrapper", "metadata": metadata, "spec": spec}


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(spec=_appwrappers, annotations=_annotations)
def test_every_pass_ends_in_a_decision_and_nothing_of_others_is_touched(
    spec: Object, annotations: dict[str, str]
) -> None:
    count = Count("phases", "Phases", ("namespace", "phase"))
    controller = appwrapper_controller(Settings(namespace=NS), count)
    desk = bench(controller, resource(spec, annotations), [config(), *theirs()])
    places = [place for place in desk.cluster.objects if place[1] == Key(NS, FOREIGN)]
    before = {place: desk.cluster.get(*place) for place in places}
    for seconds in (0, 100, 1000, 10_000):
        desk.cluster.advance(seconds)
        desk.settle(rounds=80)
    assert desk.resource is not None
    assert (desk.resource.get("status") or {}).get("phase", "") in set(Phase)
    desk.delete_resource()
    desk.cluster.advance(10_000)
    for _ in range(8):
        desk.run()
    assert {place: desk.cluster.get(*place) for place in places} == before
    assert desk.resource is None


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    spec=st.one_of(_appwrappers, st.fixed_dictionaries({"components": st.lists(_odd, max_size=3)})),
    annotations=_annotations,
)
def test_the_webhook_always_answers(spec: Object, annotations: dict[str, str]) -> None:
    async def ask(**more: Any) -> object:
        access = FakeAccessReviews(lambda asked: True)
        reader = FakeWorld()
        request = AdmissionRequest(
            object=resource(spec, annotations), namespace=NS, reader=reader, access=access, **more
        )
        return await validate(request, AppWrapperSettings())

    assert isinstance(asyncio.run(ask(operation="CREATE")), Allowed | Denied)
    assert isinstance(asyncio.run(ask(operation="UPDATE", old=resource({"components": []}, {}))), Allowed | Denied)
    assert isinstance(asyncio.run(ask(operation="UPDATE", old=resource(spec, {}))), Allowed)
