"""Every row of the seed pages is in the declarations of the operators that are built; the others are listed as missing."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from modelyard.cli.pages.flow import Flow, flow_of
from modelyard.operators.registry import BUILT, ON_REQUEST, PLANNED, load

SEEDS: dict[str, Any] = tomllib.loads((Path(__file__).parent / "seeds.toml").read_text())
_ARROWS = {"reconcile": "For", "write": "Owns", "inform": "Watches"}


def missing_rows(seed: dict[str, Any], flow: Flow) -> dict[str, list[Any]]:
    watches = {(w.type, w.version, w.kind) for w in flow.watches}
    flows = {(w.type, w.kind) for w in flow.watches}
    named = {(s.name, s.port) for s in flow.services}
    templated = {s.port_name for s in flow.services if s.role == "child"}
    # A row of a source file names no Service; one of a manifest does.
    webhooks = {(w.name, w.type, w.path, w.failure_policy, to) for w in flow.webhooks for to in (w.service, "")}
    return {
        "For/Owns/Watches": [row for row in seed["watches"] if tuple(row) not in watches],
        "flows": [row for row in seed["flows"] if (_ARROWS[row[0]], row[1]) not in flows],
        "CRDs": [row for row in seed["crds"] if tuple(row) not in {(c.kind, c.api_version) for c in flow.crds}],
        # The namespace is where one installs, and a templated name is the custom resource's own.
        "webhooks": [row for row in seed["webhooks"] if (*row[:4], row[4].rpartition("/")[2]) not in webhooks],
        "services": [
            row
            for row in seed["services"]
            if (row[0], row[1]) not in named and not (row[0] == "template-value" and row[2] in templated)
        ],
        "endpoints": [row for row in seed["endpoints"] if row[1] not in {e.path for e in flow.endpoints}],
    }


def counts(seed: dict[str, Any], missing: dict[str, list[Any]]) -> str:
    total = {
        "For/Owns/Watches": seed["watches"], "flows": seed["flows"], "CRDs": seed["crds"], "webhooks": seed["webhooks"],
        "services": seed["services"], "endpoints": seed["endpoints"],
    }  # fmt: skip
    return ", ".join(f"{name} {len(rows) - len(missing[name])}/{len(rows)}" for name, rows in total.items())


@pytest.mark.parametrize("name", list(SEEDS))
def test_the_rows_of_the_seed_page_are_declared(name: str) -> None:
    seed = SEEDS[name]
    if name in PLANNED:
        print(
            f"{name} ({seed['upstream']}): not built: missing all of {sum(len(v) for v in seed.values() if isinstance(v, list))} rows"
        )
        return
    (operator,) = load([name], {})
    missing = missing_rows(seed, flow_of(operator))
    print(f"{name} ({seed['upstream']}): {counts(seed, missing)}")
    assert operator.upstream == seed["upstream"]
    assert not any(missing.values()), missing


def test_every_seed_is_an_operator_or_planned() -> None:
    assert set(SEEDS) == (set(BUILT) - ON_REQUEST) | set(PLANNED)
