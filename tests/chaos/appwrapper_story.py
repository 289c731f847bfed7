"""The life of an AppWrapper: runs, is suspended, fails and is tried again, succeeds, and is deleted."""

from __future__ import annotations

from typing import Any

import yaml

from modelyard.kube import builtin
from modelyard.kube.kinds import Key, Object
from modelyard.kube.objects import labels_of, status_of
from modelyard.operators.codeflare.appwrapper.api import APPWRAPPER, LABEL, UID_LABEL
from modelyard.operators.codeflare.config import CONFIG_MAP
from modelyard.operators.codeflare.operator import operator
from modelyard.runtime.declaring.controller import Controller
from modelyard.runtime.declaring.desired import Desired
from modelyard.runtime.declaring.world import World
from tests.chaos.subject import Subject
from tests.chaos.sweeps import namespace

NS = "team"
PLAYS = "plays"
"""A label that says how a pod ends."""
SECTION: Object = {
    "enabled": True,
    "Config": {
        # A watch that is late must not look like a pod that is.
        "faultTolerance": {
            "admissionGracePeriod": "24h",
            "warmupGracePeriod": "24h",
            "failureGracePeriod": "0s",
            "resetPause": "2s",
            "retryLimit": 2,
            "deletionGracePeriod": "24h",
        }
    },
}


def kubelet() -> Controller:
    """Plays the kubelet: every pod is at once in the phase that its label names."""
    made = Controller("kubelet", builtin.Pod, field_manager="modelyard-test-kubelet")

    @made.reconcile
    def reconcile(pod: Object, world: World) -> Desired:
        phase = labels_of(pod).get(PLAYS)
        return Desired(status={**status_of(pod), "phase": phase} if phase else None, prune=False)

    return made


def pod(plays: str) -> Object:
    # The volume of a token would have a random name.
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [{"name": "main", "image": "example.com/main:1"}],
    }
    metadata = {"name": "main", "labels": {PLAYS: plays}}
    return {"template": {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}}


def service() -> Object:
    spec = {"selector": {PLAYS: "x"}, "ports": [{"port": 80}]}
    return {"template": {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}}


def named(name: str, **fields: Any) -> Object:
    return {"metadata": {"name": name, "namespace": NS, "labels": {LABEL: "work"}}, **fields}


def settings() -> Object:
    text = yaml.safe_dump({"appwrapper": SECTION})
    return {"metadata": {"name": CONFIG_MAP, "namespace": NS}, "data": {"config.yaml": text}}


APPWRAPPERS = Subject(
    operator,
    kind=APPWRAPPER.kind,
    key=Key(NS, "work"),
    spec={"components": [pod("Running"), service()]},
    environ={"POD_NAMESPACE": NS},
    setup=[namespace(NS), (builtin.ConfigMap, settings())],
    foreign=[
        (builtin.Service, named("bystander", spec={"ports": [{"port": 1}]})),
        (builtin.Secret, named("main", data={"a": "Yg=="})),
    ],
    outside=lambda: [kubelet()],
)
appwrapper = APPWRAPPERS.made
UIDS = {("Pod main", UID_LABEL): "the uid of an AppWrapper is another one in every run"}

LIFE = APPWRAPPERS.story(
    "an AppWrapper's life",
    appwrapper(),
    appwrapper(suspend=True),
    appwrapper(suspend=False),
    APPWRAPPERS.deleted,
    appwrapper(components=[pod("Succeeded"), service()]),
    masked=UIDS,
)
FAILURE = APPWRAPPERS.story(
    "an AppWrapper that fails and is tried again",
    appwrapper(components=[pod("Failed"), service()]),
    appwrapper(components=[pod("Failed"), service()], suspend=True),
)
PHASES = APPWRAPPERS.story(
    "an AppWrapper in every phase",
    appwrapper(components=[pod("Failed"), service()]),
    APPWRAPPERS.deleted,
    appwrapper(),
    appwrapper(suspend=True),
    appwrapper(suspend=False),
    masked=UIDS,
)
"""It is deleted at every point of this."""
