"""Every field of an AppWrapper's spec, changed one at a time: while it runs, to take effect when it is resumed, and while it waits."""

from __future__ import annotations

from dataclasses import replace

from modelyard.operators.codeflare.appwrapper.api import APPWRAPPER
from modelyard.operators.codeflare.appwrapper.webhooks import appwrapper_webhooks
from modelyard.operators.codeflare.config import Settings
from tests.chaos.appwrapper_story import APPWRAPPERS, LIFE, NS, pod, service
from tests.chaos.fields import FieldSweep

WRAPPED = {**pod("Running"), "podSets": [{"path": "template", "replicas": 1}]}
RUNNING = FieldSweep(
    story=LIFE,
    definition=APPWRAPPER,
    key=APPWRAPPERS.key,
    spec={"suspend": False, "components": [WRAPPED, service()]},
    texts={"components[].template": pod("Succeeded")["template"], "suspend": True},
    refusals=("CreateFailed",),
    condition="Unhealthy",
    refused_for_good=True,
    webhooks=[hook for hook in appwrapper_webhooks(Settings(namespace=NS)) if hook.type == "validating"],
    reopened=[("suspend", False), ("suspend", True), ("suspend", False)],
)
WAITING = replace(
    RUNNING,
    spec={**RUNNING.spec, "suspend": True},
    texts={**RUNNING.texts, "suspend": False},
    reopened=[("suspend", True), ("suspend", False), ("suspend", True)],
)


def test_every_field_of_the_schema_is_swept() -> None:
    leaves, swept = set(RUNNING.leaves()), {change.path for change in RUNNING.changes()}
    assert len(leaves) > 15
    assert leaves <= swept


def test_what_is_changed_while_it_runs_is_refused_or_takes_effect_when_it_is_resumed() -> None:
    RUNNING.run()


def test_what_is_changed_while_it_waits_is_refused_or_ends_as_if_created_that_way() -> None:
    WAITING.run()


def test_so_it_does_with_all_operators_loaded() -> None:
    RUNNING.among_all().run()
