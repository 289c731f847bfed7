"""AppWrapper as types; its definition is generated from these. And the names that it shares with Kueue and with its users."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from modelyard.kube.crd import Column, Definition, Model, Resource, Version
from modelyard.operators.parts.types import Conditions, Data, Int32, Toleration

GROUP = "workload.codeflare.dev"
CONTROLLER = f"{GROUP}/appwrapper-controller"
"""What `spec.managedBy` says where it is ours."""
LABEL = f"{GROUP}/appwrapper"
"""On every wrapped object and pod: the name of its AppWrapper."""
UID_LABEL = f"{GROUP}/appwrapper-uid"
"""On every pod besides: a namesake's pods, and those that only say that they are ours, are not."""
USER_LABEL, USER_ID_LABEL = f"{GROUP}/user", f"{GROUP}/userid"
FINALIZER = f"{GROUP}/finalizer"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
ANNOTATIONS = f"{GROUP}.appwrapper/"
"""How the annotations begin that change fault tolerance for one AppWrapper, and the hints on pod sets."""

QUOTA_RESERVED, RESOURCES_DEPLOYED = "QuotaReserved", "ResourcesDeployed"
PODS_READY, UNHEALTHY, DELETING_RESOURCES = "PodsReady", "Unhealthy", "DeletingResources"


class Phase(StrEnum):
    """Where in its life an AppWrapper is."""

    NEW = ""
    SUSPENDED = "Suspended"
    RESUMING = "Resuming"
    RUNNING = "Running"
    RESETTING = "Resetting"
    SUSPENDING = "Suspending"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    TERMINATING = "Terminating"


class PodSet(Model):
    """Some of a component's pods that are alike."""

    path: str
    replicas: Int32 | None = None
    annotations: dict[str, str] | None = None

    @property
    def count(self) -> int:
        return 1 if self.replicas is None else self.replicas


class SchedulingGate(Model):
    """Keeps pods from being scheduled."""

    name: str


class PodSetInfo(Model):
    """What the queue wants in the pods of one pod set."""

    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None
    node_selector: dict[str, str] | None = None
    tolerations: list[Toleration] | None = None
    scheduling_gates: list[SchedulingGate] | None = None


class Component(Model):
    """One wrapped object."""

    template: Annotated[
        Data,
        Meta(
            extra_json_schema={
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
            }
        ),
    ]
    annotations: dict[str, str] | None = None
    pod_sets: list[PodSet] | None = None
    pod_set_infos: list[PodSetInfo] | None = None


class AppWrapperSpec(Model):
    """What is wrapped, and whether it may run."""

    components: list[Component]
    suspend: bool | None = None
    managed_by: str | None = None


class ComponentStatus(Model):
    """What became of one component."""

    name: str
    kind: str
    api_version: str
    pod_sets: list[PodSet]
    conditions: Conditions | None = None


class AppWrapperStatus(Model):
    """How far it is."""

    phase: str | None = None
    resetting_count: Int32 | None = None
    conditions: Conditions | None = None
    component_status: list[ComponentStatus] | None = None


class AppWrapper(Resource):
    """Any objects, treated as one unit of work."""

    spec: AppWrapperSpec | None = None
    status: AppWrapperStatus | None = None

    @property
    def components(self) -> list[Component]:
        return self.spec.components if self.spec is not None else []

    @property
    def is_suspended(self) -> bool:
        return self.spec is not None and bool(self.spec.suspend)

    @property
    def is_ours(self) -> bool:
        """Is it this controller that works on it?"""
        return self.spec is None or self.spec.managed_by in (None, CONTROLLER)

    @property
    def phase(self) -> Phase:
        said = (self.status.phase if self.status is not None else "") or ""
        return Phase(said) if said in frozenset(Phase) else Phase.NEW


def _state(name: str, condition: str) -> Column:
    return Column(name, f'.status.conditions[?(@.type=="{condition}")].status')


APPWRAPPER = Definition(
    group=GROUP,
    kind_name="AppWrapper",
    plural="appwrappers",
    short_names=["aw"],
    versions=[
        Version(
            "v1beta2",
            AppWrapper,
            columns=[
                Column("Status", ".status.phase"),
                _state("Quota Reserved", QUOTA_RESERVED),
                _state("Resources Deployed", RESOURCES_DEPLOYED),
                _state("Unhealthy", UNHEALTHY),
                Column("Age", ".metadata.creationTimestamp", "date"),
            ],
        )
    ],
)
