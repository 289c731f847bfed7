"""What Kueue reads of an AppWrapper, and where it writes."""

from __future__ import annotations

import pytest

from modelyard.kube.kinds import Object
from modelyard.operators.codeflare.appwrapper.kueue import WrongCount, with_infos, without_infos, workload_pod_sets
from tests.cluster.appwrapper.scenarios.admission import pytorch_job
from tests.cluster.appwrapper.scenarios.scene import deployment, service


def appwrapper() -> Object:
    return {"metadata": {"name": "demo"}, "spec": {"components": [pytorch_job(3), service(), deployment(replicas=2)]}}


def test_a_workload_has_a_pod_set_for_each_of_ours() -> None:
    found = workload_pod_sets(appwrapper())
    assert [(each["name"], each["count"]) for each in found] == [("demo-0", 1), ("demo-1", 3), ("demo-2", 2)]


def test_a_template_has_what_counts_for_quota_and_what_the_api_would_fill_in() -> None:
    wrapped = deployment()
    spec = wrapped["template"]["spec"]["template"]["spec"]
    spec |= {
        "terminationGracePeriodSeconds": 7,
        "volumes": [{"name": "v", "emptyDir": {}}],
        "priorityClassName": "high",
    }
    spec["containers"][0] |= {
        "image": "example.com/a@sha256:00",
        "resources": {"requests": {"cpu": "0.00015", "memory": "1Gi"}},
        "ports": [{"containerPort": 1}],
    }
    (found,) = workload_pod_sets({"metadata": {"name": "demo"}, "spec": {"components": [wrapped]}})
    reduced = found["template"]["spec"]
    assert found["template"]["metadata"] == {"labels": {"app": "web"}}
    # Upstream loses a time that someone set.
    assert reduced["terminationGracePeriodSeconds"] == 7
    assert reduced["priorityClassName"] == "high"
    assert (reduced["dnsPolicy"], reduced["schedulerName"]) == ("ClusterFirst", "default-scheduler")
    assert "volumes" not in reduced
    (container,) = reduced["containers"]
    assert container["resources"] == {"requests": {"cpu": "1m", "memory": "1Gi"}}
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert container["terminationMessagePath"] == "/dev/termination-log"
    assert "ports" not in container


@pytest.mark.parametrize(
    ("image", "policy"),
    [("a", "Always"), ("host:5000/a", "Always"), ("a:latest", "Always"), ("a:1", "IfNotPresent")],
)
def test_how_an_image_is_pulled_follows_from_its_tag(image: str, policy: str) -> None:
    wrapped = deployment()
    wrapped["template"]["spec"]["template"]["spec"]["containers"][0]["image"] = image
    (found,) = workload_pod_sets({"metadata": {"name": "demo"}, "spec": {"components": [wrapped]}})
    assert found["template"]["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_infos_go_to_their_pod_sets_and_are_taken_out_again() -> None:
    infos = [{"labels": {"n": str(number)}} for number in range(3)]
    decided = with_infos(appwrapper(), infos)
    assert [each["podSetInfos"] for each in decided["spec"]["components"]] == [infos[:2], [], infos[2:]]
    assert without_infos(decided) == appwrapper()


def test_too_few_infos_are_refused() -> None:
    with pytest.raises(WrongCount, match="expecting 3 podsets, got 1"):
        with_infos(appwrapper(), [{}])
