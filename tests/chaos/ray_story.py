"""The life of a Ray cluster without KubeRay: made, resized, suspended, brought back, given an autoscaler, and deleted."""

from __future__ import annotations

from modelyard.kube import builtin
from modelyard.kube.kinds import Key, Object
from modelyard.kube.objects import owners_of
from modelyard.operators.parts.ray_crd import RAY_CLUSTER
from modelyard.operators.ray.names import CLUSTER, NODE_TYPE
from modelyard.operators.ray.operator import operator
from modelyard.runtime.declaring.controller import Controller
from modelyard.runtime.declaring.desired import Desired
from modelyard.runtime.declaring.world import World
from tests.chaos.subject import Subject
from tests.chaos.sweeps import namespace
from tests.cluster.ray.scene import cluster, workers

NS = "rays"
SINCE = "2026-01-01T11:00:00Z"


def kubelet() -> Controller:
    """Plays the kubelet: every pod of a Ray cluster runs and is ready."""
    controller = Controller("kubelet", builtin.Pod, field_manager="modelyard-test-kubelet")

    @controller.reconcile
    def reconcile(pod: Object, world: World) -> Desired:
        if not owners_of(pod):
            return Desired()
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": SINCE}
        return Desired(status={"phase": "Running", "podIP": "10.0.0.1", "conditions": [ready]})

    return controller


def bystander() -> Object:
    """A pod that looks like the cluster's and belongs to nobody."""
    labels = {CLUSTER: "ray", NODE_TYPE: "worker", "ray.io/group": "small"}
    return {
        "metadata": {"name": "ray-small-worker-other", "namespace": NS, "labels": labels},
        "spec": {"containers": [{"name": "a", "image": "b"}]},
    }


RAYS = Subject(
    operator,
    kind=RAY_CLUSTER.kind,
    key=Key(NS, "ray"),
    spec=cluster(),
    environ={"RAY_GATEWAY_NAME": "gateway", "RAY_GATEWAY_NAMESPACE": NS},
    served=[builtin.HTTPRoute],
    setup=[namespace(NS)],
    foreign=[
        (builtin.Pod, bystander()),
        (builtin.Service, {"metadata": {"name": "bystander", "namespace": NS}, "spec": {"ports": [{"port": 1}]}}),
    ],
    generated=["Secret ray"],
    outside=lambda: [kubelet()],
)
RANDOM = "pods have random names"
TIMES = "when it came to this state"
NAMED = {
    ("RayCluster ray", "podName"): RANDOM,
    ("RayCluster ray", "lastUpdateTime"): TIMES,
    ("RayCluster ray", "stateTransitionTimes"): TIMES,
}

LIFE = RAYS.story(
    "a Ray cluster's life",
    RAYS.made(),
    RAYS.made(workerGroupSpecs=[workers(replicas=2), workers(groupName="large", numOfHosts=2)]),
    RAYS.made(suspend=True),
    RAYS.made(suspend=False),
    RAYS.made(enableInTreeAutoscaling=True, rayVersion="2.61.0", upgradeStrategy={"type": "Recreate"}),
    masked=NAMED,
    made_once=[builtin.Pod],
)
END = RAYS.story(
    "a Ray cluster's end",
    RAYS.made(suspend=True),
    RAYS.deleted,
    RAYS.made(enableInTreeAutoscaling=True),
    RAYS.deleted,
    made_once=[builtin.Pod],
)
