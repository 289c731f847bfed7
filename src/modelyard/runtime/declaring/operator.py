"""An operator as data: the plane, the manifests, the dataflow page and the docs are made from this."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from modelyard.kube.crd import Definition
from modelyard.kube.kinds import Object
from modelyard.runtime.declaring.controller import Controller, Source, here
from modelyard.runtime.declaring.settings import Setting

if TYPE_CHECKING:
    from modelyard.runtime.declaring.background import Background
    from modelyard.runtime.declaring.operator_metrics import OwnMetric
    from modelyard.runtime.declaring.services import Services
    from modelyard.runtime.webhooks import Conversion, Webhook


@dataclass(frozen=True)
class ExposedService:
    """A Service that the operator brings along: its own (metrics, webhooks), or one of the samples that it ships."""

    name: str
    port: int
    port_name: str = ""
    target_port: int | str = 0
    role: Literal["metrics", "webhook", "sample", "child"] = "child"
    protocol: str = "TCP"
    source: Source = field(default_factory=here, compare=False)


@dataclass(frozen=True)
class Operator:
    """One platform system: what it serves, watches and needs."""

    name: str
    """As in `--operators mlflow,model-registry`."""
    title: str
    upstream: str = "none"
    """The operator whose custom resources it takes, as its seed page calls it."""
    controllers: Sequence[Controller] = ()
    definitions: Sequence[Definition] = ()
    webhooks: Sequence[Webhook] = ()
    conversions: Sequence[Conversion] = ()
    services: Sequence[ExposedService] = ()
    settings: Sequence[Setting] = ()
    roles: Sequence[Object] = ()
    """ClusterRoles for users, installed with the operator and not reconciled."""
    background: Sequence[Background] = ()
    """What talks to workloads beyond the API while this process leads."""
    metrics: Sequence[OwnMetric] = ()
    """Its own, beside those that every controller has: served at /metrics."""
    chart: str = ""
    """What the configuration section of its page names (a Helm chart upstream)."""


BuildOperator: TypeAlias = "Callable[[Mapping[str, str]], Operator] | Callable[[Mapping[str, str], Services], Operator]"
"""Makes the operator from environment variables; a bad value is an error that names it. One that talks to something beyond the
API takes `services` too."""
BuildShared: TypeAlias = Callable[[Mapping[str, str], Sequence[Operator]], Operator]
"""The same for what runs with any of them: it looks at what the operators declare, as they do not know it."""
