"""Objects as rows of tables: kubectl's columns for built-in kinds, printer columns for custom ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from modelyard.kube.kinds import Object
from modelyard.kube.times import utc_now
from modelyard.local.apiserver.served.resources import ServedResource
from modelyard.local.apiserver.tables import others, services, workloads
from modelyard.local.apiserver.tables.ages import Ages
from modelyard.local.apiserver.tables.jsonpath import PathError, compile_path, printed

__all__ = ["Tables"]

Row = Callable[[Object, Ages], list[Any]]

_AGE = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}

_STORAGE_CLASSES = "storageclasses.storage.k8s.io"

# Column names; `:integer` and `:boolean` give a type, `*` marks the ones that only a wide table shows.
_CONTAINERS = "Containers* Images*"
_BUILTIN: dict[str, tuple[str, Row]] = {
    "pods": ("Name Ready Status Restarts Age IP* Node* Nominated_Node* Readiness_Gates*", workloads.pod),
    "customresourcedefinitions.apiextensions.k8s.io": (
        "Name Scope Versions Created_At:date Group* Kind* ShortNames* Established:boolean*", others.definition,
    ),
    "podtemplates": ("Name Containers Images Pod_Labels", workloads.pod_template),
    "replicationcontrollers": (
        f"Name Desired:integer Current:integer Ready:integer Age {_CONTAINERS} Selector*", workloads.replica_set,
    ),
    "replicasets.apps": (
        f"Name Desired:integer Current:integer Ready:integer Age {_CONTAINERS} Selector*", workloads.replica_set,
    ),
    "deployments.apps": (f"Name Ready Up-to-date Available Age {_CONTAINERS} Selector*", workloads.deployment),
    "statefulsets.apps": (f"Name Ready Age {_CONTAINERS}", workloads.stateful_set),
    "daemonsets.apps": (
        "Name Desired:integer Current:integer Ready:integer Up-to-date:integer Available:integer Node_Selector Age "
        f"{_CONTAINERS} Selector*",
        workloads.daemon_set,
    ),
    "controllerrevisions.apps": ("Name Controller Revision Age", workloads.controller_revision),
    "jobs.batch": (f"Name Status Completions Duration Age {_CONTAINERS} Selector*", workloads.job),
    "cronjobs.batch": (
        f"Name Schedule Timezone Suspend:boolean Active:integer Last_Schedule Age {_CONTAINERS} Selector*",
        workloads.cron_job,
    ),
    "services": ("Name Type Cluster-IP External-IP Port(s) Age Selector*", services.service),
    "endpoints": ("Name Endpoints Age", services.endpoints),
    "endpointslices.discovery.k8s.io": ("Name AddressType Ports Endpoints Age", services.endpoint_slice),
    "ingresses.networking.k8s.io": ("Name Class Hosts Address Ports Age", services.ingress),
    "ingressclasses.networking.k8s.io": ("Name Controller Parameters Age", services.ingress_class),
    "networkpolicies.networking.k8s.io": ("Name Pod-Selector Age", services.network_policy),
    "configmaps": ("Name Data Age", others.config_map),
    "secrets": ("Name Type Data Age", others.secret),
    "serviceaccounts": ("Name Age", others.named),
    "namespaces": ("Name Status Age", others.namespace),
    "nodes": (
        "Name Status Roles Age Version Internal-IP* External-IP* OS-Image* Kernel-Version* Container-Runtime*", others.node,
    ),
    "events": (
        "Last_Seen Type Reason Object Subobject* Source* Message First_Seen* Count* Name*", others.event,
    ),
    "events.events.k8s.io": (
        "Last_Seen Type Reason Object Subobject* Source* Message First_Seen* Count* Name*", others.event,
    ),
    "persistentvolumes": (
        "Name Capacity Access_Modes Reclaim_Policy Status Claim StorageClass VolumeAttributesClass Reason Age VolumeMode*",
        others.persistent_volume,
    ),
    "persistentvolumeclaims": (
        "Name Status Volume Capacity Access_Modes StorageClass VolumeAttributesClass Age VolumeMode*",
        others.persistent_volume_claim,
    ),
    "resourcequotas": ("Name Request Limit Age", others.quota),
    _STORAGE_CLASSES: (
        "Name Provisioner ReclaimPolicy VolumeBindingMode AllowVolumeExpansion Age", others.storage_class,
    ),
    "csidrivers.storage.k8s.io": (
        "Name AttachRequired:boolean PodInfoOnMount:boolean StorageCapacity:boolean TokenRequests RequiresRepublish:boolean Modes Age",
        others.csi_driver,
    ),
    "csinodes.storage.k8s.io": ("Name Drivers:integer Age", others.csi_node),
    "certificatesigningrequests.certificates.k8s.io": (
        "Name Age SignerName Requestor RequestedDuration Condition", others.signing_request,
    ),
    "volumeattachments.storage.k8s.io": ("Name Attacher PV Node Attached:boolean Age", others.attachment),
    "priorityclasses.scheduling.k8s.io": (
        "Name Value:integer Global-Default:boolean Age PreemptionPolicy", others.priority_class,
    ),
    "runtimeclasses.node.k8s.io": ("Name Handler Age", others.runtime_class),
    "leases.coordination.k8s.io": ("Name Holder Age", others.lease),
    "rolebindings.rbac.authorization.k8s.io": ("Name Role Age Users* Groups* ServiceAccounts*", others.binding),
    "clusterrolebindings.rbac.authorization.k8s.io": ("Name Role Age Users* Groups* ServiceAccounts*", others.binding),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": ("Name Webhooks:integer Age", others.webhooks),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": ("Name Webhooks:integer Age", others.webhooks),
    "poddisruptionbudgets.policy": (
        "Name Min_Available Max_Unavailable Allowed_Disruptions:integer Age", others.disruption_budget,
    ),
    "scales.autoscaling": ("Name Desired:integer Available:integer Age", others.scale),
    "horizontalpodautoscalers.autoscaling": (
        "Name Reference Targets MinPods MaxPods Replicas Age", others.autoscaler,
    ),
}  # fmt: skip


class Tables:
    """Columns and cells for every served resource. Kinds without columns of their own show name and creation time."""

    def __init__(self, clock: Callable[[], datetime] = utc_now) -> None:
        self._ages = Ages(clock)

    def columns(self, resource: ServedResource) -> list[Object]:
        if resource.custom:
            return [_column("Name"), *(_custom_column(column) for column in resource.columns or (_AGE,))]
        known = _BUILTIN.get(resource.kind.resource)
        if known is None:
            return [_column("Name"), _column("Created_At", "date")]
        return [_parsed(word) for word in known[0].split()]

    def cells(self, resource: ServedResource, obj: Object) -> list[Any]:
        if resource.custom:
            columns = resource.columns or (_AGE,)
            return [obj["metadata"].get("name", ""), *(self._cell(column, obj) for column in columns)]
        known = _BUILTIN.get(resource.kind.resource)
        if known is None:
            return [obj["metadata"].get("name", ""), obj["metadata"].get("creationTimestamp")]
        return known[1](obj, self._ages)

    def conditions(self, resource: ServedResource, obj: Object) -> list[Object]:
        return workloads.pod_conditions(obj) if resource.kind.resource == "pods" else []

    def mark_default(self, resource: ServedResource, objects: Sequence[Object], rows: Sequence[list[Any]]) -> None:
        if resource.kind.resource != _STORAGE_CLASSES:
            return
        default = others.default_class(objects)
        for row in rows:
            if row[0] == default:
                row[0] += " (default)"

    def _cell(self, column: Object, obj: Object) -> Any:
        try:
            found = compile_path(column["jsonPath"])(obj)
        except PathError:
            return None
        if not found:
            return None
        value = found[0]
        match column.get("type"):
            case "string":
                return printed(value)
            case "integer" if type(value) in (int, float):
                return int(value)
            case "number" if type(value) in (int, float):
                return value
            case "boolean" if isinstance(value, bool):
                return value
            case "date" if isinstance(value, str):
                try:
                    return self._ages.since(value)
                except ValueError:
                    return "<invalid>"
        return None


def _parsed(word: str) -> Object:
    name, _, kind = word.removesuffix("*").partition(":")
    return _column(name, kind or "string", 1 if word.endswith("*") else 0)


def _column(name: str, kind: str = "string", priority: int = 0) -> Object:
    form = "name" if name in ("Name", "Attacher") else ""
    return {"name": name.replace("_", " "), "type": kind, "format": form, "description": "", "priority": priority}


def _custom_column(column: Object) -> Object:
    described = f"Custom resource definition column (in JSONPath format): {column['jsonPath']}"
    return {
        "name": column["name"], "type": column["type"], "format": column.get("format") or "",
        "description": column.get("description") or described, "priority": column.get("priority") or 0,
    }  # fmt: skip
