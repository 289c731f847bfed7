"""Which operators there are: ours, and those of installed packages (entry points `modelyard.operators`). Nothing is imported before it is asked for.

An entry point, ours or a user's, is a function `operator(environ) -> Operator`, or `operator(environ, services)` where it talks to
something beyond the API.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module, metadata
from types import MappingProxyType
from typing import cast

from modelyard.runtime.declaring.operator import BuildOperator, BuildShared, Operator
from modelyard.runtime.declaring.services import Services

GROUP = "modelyard.operators"
"""The group of entry points in which a package names its operators."""
BUILT: Mapping[str, str] = MappingProxyType(
    {
        "mlflow": "modelyard.operators.mlflow.operator",
        "model-registry": "modelyard.operators.model_registry.operator",
        "codeflare": "modelyard.operators.codeflare.operator",
        "ray": "modelyard.operators.ray.operator",
    }
)
"""Ours."""
ON_REQUEST = frozenset({"ray"})
"""On a cluster these run only if they are named: their work is usually done by someone else there."""
PLANNED: Mapping[str, str] = MappingProxyType(
    {
        "modelmesh": "ModelMesh serving: Predictor, ServingRuntime, InferenceService",
        "trustyai": "TrustyAI: TrustyAIService, LMEvalJob, GuardrailsOrchestrator, NemoGuardrails, EvalHub",
    }
)
"""Systems whose custom resources we do not take yet."""


SHARED: Mapping[str, str] = MappingProxyType(
    {"serving-certificates": "modelyard.operators.certificates.operator"},
)
"""What all operators stand on: it runs with any of them and is not chosen by name."""


class UnknownOperator(ValueError):
    """There is no operator of this name; the message lists those that exist."""


class BadOperator(ValueError):
    """A package offers something under our entry point that cannot be used; the message names the package."""


def available() -> dict[str, str]:
    """Every operator that can be chosen by name, and where its function is (`module:function`): ours first, then those of installed packages."""
    found = {name: f"{module}:operator" for name, module in BUILT.items()}
    for entry in metadata.entry_points(group=GROUP):
        if entry.name in found or entry.name in SHARED:
            raise BadOperator(
                f"package {_package(entry)!r} offers an operator with the name {entry.name!r}, which another one has: "
                f"give it another name in the entry points {GROUP!r} of that package, or uninstall the package"
            )
        found[entry.name] = entry.value
    return found


def load(names: Iterable[str] | None, environ: Mapping[str, str], services: Services | None = None) -> list[Operator]:
    """The operators of these names (None: all but those on request), with their settings read from the environment.

    `module:function` names one that is not installed. `services` are those of a test, in place of the real ones.
    """
    services = services or Services()
    there = available()
    wanted = [name for name in there if name not in ON_REQUEST] if names is None else list(dict.fromkeys(names))
    for name in wanted:
        if name in PLANNED and name not in there:
            raise UnknownOperator(f"operator {name!r} is not built yet; there are: {', '.join(there)}")
        if name not in there and ":" not in name:
            raise UnknownOperator(
                f"there is no operator {name!r}; there are: {', '.join(there)}. Write one that is not installed as module:function"
            )
    built = [_built(name, there.get(name, name), environ, services) for name in wanted]
    if services.unused:
        asked = ", ".join(services.asked) or "none"
        raise BadOperator(f"no operator uses the service {', '.join(services.unused)}; they use: {asked}")
    return built


def modules(names: Iterable[str]) -> list[str]:
    """The modules that hold these operators."""
    there = available()
    return [there.get(name, name).partition(":")[0] for name in names]


def shared(environ: Mapping[str, str], chosen: Sequence[Operator]) -> list[Operator]:
    """What runs besides the operators that were chosen, where these need it."""
    return [cast(BuildShared, import_module(module).operator)(environ, chosen) for module in SHARED.values()]


def _built(name: str, where: str, environ: Mapping[str, str], services: Services) -> Operator:
    module, _, function = where.partition(":")
    try:
        entry = cast(BuildOperator, getattr(import_module(module), function))
    except (ImportError, AttributeError) as error:
        raise BadOperator(
            f"operator {name!r} cannot be loaded from {where}: {error}. Mend or reinstall its package, or choose others with --operators"
        ) from error
    made: object = build(entry, environ, services)
    if not isinstance(made, Operator):
        raise BadOperator(
            f"operator {name!r}: {where} gives a {type(made).__name__}; it must give a modelyard.runtime.declaring.operator.Operator"
        )
    if made.name != name and ":" not in name:
        raise BadOperator(
            f"operator {name!r}: the operator in {where} calls itself {made.name!r}; the entry point and the operator need the same name"
        )
    return made


def build(function: BuildOperator, environ: Mapping[str, str], services: Services) -> object:
    """What the function of an entry point gives; services only if it asks for them."""
    if "services" in inspect.signature(function).parameters:
        return cast(Callable[[Mapping[str, str], Services], Operator], function)(environ, services)
    return cast(Callable[[Mapping[str, str]], Operator], function)(environ)


def _package(entry: metadata.EntryPoint) -> str:
    return entry.dist.name if entry.dist else "?"
