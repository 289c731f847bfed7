"""What users put in an operator's way, tried on each operator that ships: a Lease of its predecessor's name in a namespace of
their own, one that nobody renews, and a finalizer that cannot be removed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from modelyard.kube.builtin import Event, Lease
from modelyard.kube.conditions import find_condition
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import conditions_of, finalizers_of
from modelyard.kube.times import format_micro_time
from modelyard.operators.mlflow.api import MLFLOW_OPERATOR
from modelyard.operators.mlflow.module import MODULE_NAME
from modelyard.operators.mlflow.operator import operator as mlflow_operator
from tests.chaos import sweeps
from tests.chaos.mlflow_story import MLFLOWS, NS
from tests.chaos.registry_story import MYSQL, REGISTRIES
from tests.chaos.subject import Subject
from tests.chaos.sweeps import START, Stage, SweptScenario, clock, namespace, play, virtually

MODULES = Subject(
    mlflow_operator,
    kind=MLFLOW_OPERATOR.kind,
    key=Key("", MODULE_NAME),
    spec={"gatewayName": "gateway", "sectionTitle": "ML"},
    environ={"ENABLE_MLFLOW_OPERATOR_MODULE_CONTROLLER": "true", "APPLICATIONS_NAMESPACE": NS},
    setup=[namespace(NS)],
)
SUBJECTS = {
    "mlflow": MLFLOWS,
    "module": MODULES,
    "registry": replace(REGISTRIES, spec={**REGISTRIES.spec, "mysql": MYSQL}),
}


def made(name: str, subject: Subject) -> SweptScenario:
    """Its resource is made, in a cluster with a tenant's namespace and the one where the operator before ours may run."""
    home = [namespace(NS)] if namespace(NS) not in subject.setup else []
    setup = [*subject.setup, *home, namespace("tenant")]
    return subject.story(f"a {name} that is made", subject.made(), setup=setup)


MADE = {name: made(name, subject) for name, subject in SUBJECTS.items()}
FOREVER = 2147483647
A_WHILE = 600.0
OUTAGE = 'failed calling webhook "check.example.com": connection refused'
FEW = 200
"""Requests in ten minutes. A loop makes as many in a second."""


def leases_of_predecessors(story: SweptScenario) -> dict[str, tuple[str, ...]]:
    """The Lease of each operator that may have run before this one, and the namespaces where it may run."""
    found = [controller.predecessor for controller in story.controllers()]
    return {one.lease: one.namespaces for one in found if one is not None}


def held(name: str, place: str, *, ahead: timedelta = timedelta()) -> tuple[Kind, Object]:
    """A Lease that says it lasts for 68 years."""
    spec = {"holderIdentity": "me", "leaseDurationSeconds": FOREVER, "renewTime": format_micro_time(START + ahead)}
    return Lease, {"metadata": {"name": name, "namespace": place}, "spec": spec}


def among(story: SweptScenario, *more: tuple[Kind, Object]) -> SweptScenario:
    """The same story, where these objects are there before."""
    return replace(story, setup=[*story.setup, *more])


async def reconciled(stage: Stage, subject: Subject) -> Object:
    """The condition that says why nothing is done."""
    assert subject.kind is not None
    found = await stage.client.get(subject.kind, *subject.key)
    return find_condition(conditions_of(found), "Reconciled") or {}


@pytest.mark.parametrize("name", MADE)
def test_a_lease_in_a_tenants_namespace_stops_no_operator(name: str) -> None:
    story = MADE[name]
    leases = leases_of_predecessors(story)
    assert leases
    there = [held(lease, "tenant", ahead=timedelta(minutes=1)) for lease in leases]
    ending, _ = virtually(play(among(story, *there)))
    sweeps.compare(story, ending, sweeps.baseline(story).ending, "with Leases in a tenant's namespace")


@pytest.mark.parametrize("name", MADE)
def test_a_lease_that_nobody_renews_stops_an_operator_for_a_few_minutes_at_most(name: str) -> None:
    story = MADE[name]
    there = [held(lease, NS) for lease, places in leases_of_predecessors(story).items() if NS in places]
    assert there
    said: list[str] = []

    async def note_the_time(stage: Stage, step: int) -> None:
        said.extend(event["reason"] for event in (await stage.client.list(Event)).items)
        assert clock() - START <= timedelta(seconds=A_WHILE)

    ending, _ = virtually(play(among(story, *there), between=note_the_time))
    assert "OtherOperatorRunning" in said
    sweeps.compare(story, ending, sweeps.baseline(story).ending, "with a Lease that nobody renews")


@pytest.mark.parametrize("name", ["module", "registry"])
def test_a_finalizer_that_cannot_be_removed_is_told_and_tried_again_after_growing_pauses(name: str) -> None:
    subject = SUBJECTS[name]
    kind, key = subject.kind, subject.key
    assert kind is not None

    async def refuse_for_a_while(stage: Stage, step: int) -> None:
        assert kind is not None
        (finalizer,) = finalizers_of(await stage.client.get(kind, *key))
        for verb in ("patch", "update"):
            stage.server.faults.add(verb, resource=kind.plural, subresource="", status=500, message=OUTAGE)
        await stage.client.delete(kind, *key)
        before = stage.server.journal.total
        await asyncio.sleep(A_WHILE)
        assert stage.server.journal.total - before < FEW
        mark = await reconciled(stage, subject)
        assert mark["reason"] == "FinalizerNotRemoved"
        assert finalizer in mark["message"]
        assert OUTAGE in mark["message"]
        stage.server.faults.clear()
        await asyncio.sleep(A_WHILE)
        assert await stage.client.find(kind, *key) is None

    virtually(play(MADE[name], between=refuse_for_a_while))
