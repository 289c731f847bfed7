"""The order in which a pass acts is the one that `Desired` promises."""

from __future__ import annotations

from modelyard.kube.builtin import ConfigMap, Secret
from modelyard.kube.kinds import Key, Object
from modelyard.runtime.declaring.controller import Watch
from modelyard.runtime.declaring.desired import Desired, Edit, EventNote, Live, Stage
from modelyard.runtime.declaring.world import World
from modelyard.runtime.testing import bench
from tests.unit.runtime.greetings import GREETING, Greeting, config, controller, obj


def test_patch_status_deletes_edits_stages_prune_status_events() -> None:
    def reconcile(resource: Greeting, world: World) -> Desired:
        if resource.spec.size == 1:
            return Desired([config("again"), config("old")])
        theirs = world.get(Secret, "shop", "theirs")
        assert theirs is not None
        version = theirs["metadata"]["resourceVersion"]
        return Desired(
            events=[EventNote("Moved", "done")],
            status=lambda resource, live: {"phase": f"saw {len(live.objects)}"},
            stages=[Stage([config("again")]), Stage([config("second")], ready=lambda live: bool(live.objects))],
            edits=[Edit(Secret, Key("shop", "theirs"), version, {"data": {"a": None}})],
            delete=[(ConfigMap, Key("shop", "again"))],
            status_first={"phase": "moving"},
            patch={"metadata": {"annotations": {"once": None}}},
        )

    made = controller(reconcile, watches=[Watch(Secret)])
    theirs: Object = obj(Secret, "theirs", data={"a": "eA=="})
    resource = obj(GREETING.kind, "hi", spec={"size": 1})
    resource["metadata"]["annotations"] = {"once": "yes"}
    place = bench(made, resource, [theirs])
    place.settle()
    place.edit_resource(lambda greeting: greeting["spec"].update(size=2))
    outcome = place.run()
    assert list(outcome.writes) == [
        "patch Greeting shop/hi",
        "patch status Greeting shop/hi",
        "delete ConfigMap shop/again",
        "patch Secret shop/theirs",
        "apply ConfigMap shop/again",
        "apply ConfigMap shop/second",
        "delete ConfigMap shop/old",
        "patch status Greeting shop/hi",
    ]
    assert outcome.status["phase"] == "saw 2"
    assert [note.reason for note in outcome.events] == ["Moved"]


def test_a_stage_that_is_not_ready_keeps_the_next_and_what_would_be_pruned() -> None:
    def never(live: Live) -> bool:
        return False

    def reconcile(resource: Greeting, world: World) -> Desired:
        if resource.spec.size == 1:
            return Desired([config("old")])
        return Desired(stages=[Stage([config("first")], ready=never), Stage([config("second")])])

    place = bench(controller(reconcile), obj(GREETING.kind, "hi", spec={"size": 1}))
    place.settle()
    place.edit_resource(lambda greeting: greeting["spec"].update(size=2))
    assert [write for write in place.run().writes if "ConfigMap" in write] == ["apply ConfigMap shop/first"]
