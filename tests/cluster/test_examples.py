"""Every example is taken by the API, and the controllers make of it what they promise."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelyard.cli.files import read_all
from modelyard.cli.plan import Asked, sort_out
from modelyard.cli.simulation import simulate
from modelyard.kube.kinds import Object
from modelyard.kube.objects import conditions_of
from modelyard.operators.parts.ray_crd import RAY_CLUSTER
from modelyard.operators.registry import BUILT, load, shared
from tests.cluster.conftest import Api
from tests.ground import ApiGround

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(EXAMPLES.rglob("*.yaml"))


def named(file: Path) -> str:
    return str(file.relative_to(EXAMPLES))


def sorted_out(file: Path) -> tuple[list[Asked], list[Object]]:
    """The custom resources of a file, and the rest; some examples are only what others lean on."""
    objects = read_all([file])
    operators = load(BUILT, {})
    custom = {d.kind_name for operator in operators for d in operator.definitions}
    custom |= {kind.kind for operator in operators for c in operator.controllers for kind in c.foreign_kinds}
    return sort_out(load(BUILT, {}), objects) if custom & {obj["kind"] for obj in objects} else ([], objects)


@pytest.mark.parametrize("file", FILES, ids=named)
async def test_the_api_takes_the_objects_of_the_example(api: Api, file: Path) -> None:
    asked, others = sorted_out(file)
    namespace = await api.namespace()
    wanted = {each.kind for each in asked}
    known = [RAY_CLUSTER, *(d for operator in load(BUILT, {}) for d in operator.definitions)]
    definitions = [definition for definition in known if definition.kind in wanted]
    await ApiGround(api.client, namespace).install(definitions)
    served = {(kind.api_version, kind.kind): kind for kind in await api.client.discover()}
    for obj in [each.resource for each in asked] + others:
        kind = served[obj["apiVersion"], obj["kind"]]
        if kind.namespaced:
            obj = obj | {"metadata": {**obj["metadata"], "namespace": namespace}}
        taken = await api.client.apply(kind, obj, field_manager="example", force=True, dry_run=True)
        assert lost(obj.get("spec") or {}, taken.get("spec") or {}) == [], "a field that the kind does not have"


@pytest.mark.parametrize("file", [f for f in FILES if sorted_out(f)[0]], ids=named)
async def test_the_controllers_bring_the_example_to_its_end(api: Api, file: Path) -> None:
    if api.real:
        pytest.skip("needs no cluster: runs on the embedded server in make test")
    asked, others = sorted_out(file)
    operators = load(BUILT, {})
    operators += shared({}, operators)
    plans = await simulate(operators, [(each.kind, each.resource) for each in asked], others, "kubernetes")
    for each, plan in zip(asked, plans, strict=True):
        if each.controller is None:
            continue
        if not each.defined:
            assert plan.of("create"), f"nothing is made around {each.title}"
            continue
        said = {c["type"]: (c["status"], c["reason"], c["message"]) for c in conditions_of({"status": plan.resulting})}
        assert plan.of("create"), f"{each.title} makes nothing: {said}"
        main = said.get(each.controller.ready_condition) or said.get("PodsReady")
        assert main is not None, f"{each.title} says nothing"
        assert main[0] == "True", f"{each.title}: {main}"


@pytest.mark.parametrize("name", list(BUILT))
def test_every_kind_has_a_minimal_and_a_full_example(name: str) -> None:
    (operator,) = load([name], {})
    for size in ("minimal", "full"):
        files = [file for file in (EXAMPLES / name).glob("*.yaml") if size in file.name]
        kinds = {obj["kind"] for obj in read_all(files)} if files else set()
        missing = {definition.kind_name for definition in operator.definitions} - kinds
        assert not missing, f"no {size} example in examples/{name} for {', '.join(sorted(missing))}"


def lost(given: Object, kept: Object, path: str = "spec") -> list[str]:
    """The fields that were given and are not in what the API keeps."""
    found: list[str] = []
    for name, value in given.items():
        if name not in kept:
            found.append(f"{path}.{name}")
        elif isinstance(value, dict) and isinstance(kept[name], dict):
            found += lost(value, kept[name], f"{path}.{name}")
    return found
