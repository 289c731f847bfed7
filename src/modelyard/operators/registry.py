"""Which operators there are. Each package has `operator.py` with `operator(environ) -> Operator`; nothing is imported before it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import cast

from modelyard.runtime.operator import BuildOperator, BuildShared, Operator

BUILT: Mapping[str, str] = MappingProxyType(
    {
        "mlflow": "modelyard.operators.mlflow.operator",
        "model-registry": "modelyard.operators.model_registry.operator",
    }
)
PLANNED: Mapping[str, str] = MappingProxyType(
    {
        "modelmesh": "ModelMesh serving: Predictor, ServingRuntime, InferenceService",
        "codeflare": "CodeFlare: RayCluster, AppWrapper",
        "trustyai": "TrustyAI: TrustyAIService, LMEvalJob, GuardrailsOrchestrator, NemoGuardrails, EvalHub",
    }
)
"""Systems whose custom resources we do not take yet."""


SHARED: Mapping[str, str] = MappingProxyType(
    {"serving-certificates": "modelyard.operators.certificates.operator"},
)
"""What all operators stand on: it runs with any of them and is not chosen by name."""


class UnknownOperator(ValueError):
    """A name that is no operator of ours; the message lists those that are."""


def load(names: Iterable[str] | None, environ: Mapping[str, str]) -> list[Operator]:
    """The operators of these names (None: all that are built), with their settings read from the environment."""
    wanted = list(BUILT) if names is None else list(dict.fromkeys(names))
    for name in wanted:
        if name in PLANNED:
            raise UnknownOperator(f"operator {name!r} is not built yet; there are: {', '.join(BUILT)}")
        if name not in BUILT:
            raise UnknownOperator(f"there is no operator {name!r}; there are: {', '.join(BUILT)}")
    return [cast(BuildOperator, import_module(BUILT[name]).operator)(environ) for name in wanted]


def shared(environ: Mapping[str, str], chosen: Sequence[Operator]) -> list[Operator]:
    """What runs besides the operators that were chosen, where these need it."""
    return [cast(BuildShared, import_module(module).operator)(environ, chosen) for module in SHARED.values()]
