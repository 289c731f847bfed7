"""Typed parts that several custom resources share: core types as plain data with their real schemas, and conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from msgspec import Meta

from modelyard.kube.crd import Model, embedded

Data: TypeAlias = dict[str, Any]

Int32: TypeAlias = Annotated[int, Meta(extra_json_schema={"format": "int32"})]
Int64: TypeAlias = Annotated[int, Meta(extra_json_schema={"format": "int64"})]
Quantity: TypeAlias = Annotated[int | str, embedded("apimachinery.pkg.api.resource.Quantity")]
Timestamp: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]

Affinity: TypeAlias = Annotated[Data, embedded("core.v1.Affinity")]
EnvFromSource: TypeAlias = Annotated[Data, embedded("core.v1.EnvFromSource")]
EnvVar: TypeAlias = Annotated[Data, embedded("core.v1.EnvVar")]
LabelSelector: TypeAlias = Annotated[Data, embedded("apimachinery.pkg.apis.meta.v1.LabelSelector")]
NetworkPolicyEgressRule: TypeAlias = Annotated[Data, embedded("networking.v1.NetworkPolicyEgressRule")]
PersistentVolumeClaimSpec: TypeAlias = Annotated[Data, embedded("core.v1.PersistentVolumeClaimSpec")]
PodResourceClaim: TypeAlias = Annotated[Data, embedded("core.v1.PodResourceClaim")]
PodSecurityContext: TypeAlias = Annotated[Data, embedded("core.v1.PodSecurityContext")]
ResourceRequirements: TypeAlias = Annotated[Data, embedded("core.v1.ResourceRequirements")]
SecurityContext: TypeAlias = Annotated[Data, embedded("core.v1.SecurityContext")]
Toleration: TypeAlias = Annotated[Data, embedded("core.v1.Toleration")]


class SecretKey(Model, kw_only=True):
    """Names one key of a Secret in the same namespace (a core SecretKeySelector)."""

    schema_extra: ClassVar[Mapping[str, Any]] = {"x-kubernetes-map-type": "atomic"}

    name: str = ""
    key: str
    optional: bool | None = None


_CONDITION_TYPE = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
ConditionType: TypeAlias = Annotated[str, Meta(max_length=316, pattern=_CONDITION_TYPE)]
ConditionStatus: TypeAlias = Literal["True", "False", "Unknown"]


class Condition(Model):
    """One aspect of a resource's state, as `metav1.Condition` has it."""

    type: ConditionType
    status: ConditionStatus
    reason: Annotated[str, Meta(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    message: Annotated[str, Meta(max_length=32768)]
    last_transition_time: Timestamp
    observed_generation: Annotated[int, Meta(ge=0, extra_json_schema={"format": "int64"})] | None = None


Conditions: TypeAlias = Annotated[
    list[Condition],
    Meta(extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
]
