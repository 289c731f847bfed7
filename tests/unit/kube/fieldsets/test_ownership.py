import copy
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from modelyard.kube import builtin
from modelyard.kube.fieldsets import LAST_APPLIED, Conflicts, FieldSet, TypedError, Write, apply, update
from modelyard.kube.schema import builtin_schema, crd_schema

Object = dict[str, Any]

LATER = datetime(2026, 1, 2, tzinfo=UTC)


def entries(obj: Object) -> dict[str, Any]:
    """The fields by manager and operation."""
    found = obj["metadata"].get("managedFields", [])
    return {f"{entry['manager']}:{entry['operation']}": entry["fieldsV1"] for entry in found}


def times(obj: Object) -> dict[str, str | None]:
    return {entry["manager"]: entry.get("time") for entry in obj["metadata"].get("managedFields", [])}


def stored(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "uid": "u-1", "resourceVersion": "1"}}


def changed(obj: Object, *path: Any, to: Any = None, delete: bool = False) -> Object:
    out = copy.deepcopy(obj)
    node = out
    for name in path[:-1]:
        node = node[name]
    if delete:
        del node[path[-1]]
    else:
        node[path[-1]] = to
    return out


def small(**spec: Any) -> Object:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def test_a_create_owns_all_that_was_set(deployment: Object, write: Write) -> None:
    created = update(None, deployment, "kubectl-create", write)
    assert created["metadata"]["managedFields"] == [
        {
            "manager": "kubectl-create",
            "operation": "Update",
            "apiVersion": "apps/v1",
            "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                "f:spec": {
                    "f:replicas": {},
                    "f:selector": {},
                    "f:template": {
                        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                        "f:spec": {
                            "f:containers": {
                                'k:{"name":"app"}': {
                                    ".": {},
                                    "f:image": {},
                                    "f:name": {},
                                    "f:ports": {
                                        ".": {},
                                        'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}},
                                    },
                                }
                            }
                        },
                    },
                },
            },
        }
    ]


def test_what_an_empty_object_holds_already_is_owned_by_nobody(write: Write) -> None:
    schema = builtin_schema(builtin.Event)
    assert schema is not None
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {},
        "reason": "Started",
        "eventTime": None,
        "reportingComponent": "",
    }
    created = update(None, event, "me", replace(write, schema=schema, api_version="v1"))
    assert entries(created) == {"me:Update": {"f:reason": {}}}


def test_an_apply_owns_only_leaves_and_items(deployment: Object, write: Write) -> None:
    assert entries(apply(None, deployment, "me", write))["me:Apply"]["f:metadata"] == {"f:labels": {"f:app": {}}}


def test_applying_twice_changes_nothing(deployment: Object, write: Write) -> None:
    live = stored(apply(None, deployment, "me", write))
    assert apply(live, deployment, "me", replace(write, now=LATER)) is live


def test_a_field_of_another_manager_conflicts_and_names_it(deployment: Object, write: Write) -> None:
    live = stored(update(None, deployment, "kubectl", write))
    with pytest.raises(Conflicts) as caught:
        apply(live, small(replicas=3), "me", write)
    assert str(caught.value) == 'Apply failed with 1 conflict: conflict with "kubectl" using apps/v1: .spec.replicas'
    assert caught.value.causes == [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "kubectl" using apps/v1',
            "field": ".spec.replicas",
        }
    ]


def test_several_conflicts_are_listed_by_manager(deployment: Object, write: Write) -> None:
    live = stored(apply(None, small(replicas=1), "first", write))
    live = stored(apply(live, {**small(), "metadata": {"name": "web", "labels": {"a": "1"}}}, "second", write))
    config = {**small(replicas=2), "metadata": {"name": "web", "labels": {"a": "2"}}}
    with pytest.raises(Conflicts) as caught:
        apply(live, config, "me", write)
    assert str(caught.value) == (
        'Apply failed with 2 conflicts: conflicts with "first":\n- .spec.replicas\nconflicts with "second":\n- .metadata.labels.a'
    )


def test_force_takes_the_field(deployment: Object, write: Write) -> None:
    live = stored(apply(None, small(replicas=1), "first", write))
    after = apply(live, small(replicas=3), "me", write, force=True)
    assert after["spec"]["replicas"] == 3
    assert entries(after) == {"me:Apply": {"f:spec": {"f:replicas": {}}}}


def test_equal_values_are_owned_together_and_survive_one_owner(write: Write) -> None:
    live = stored(apply(None, small(replicas=1), "first", write))
    live = apply(live, small(replicas=1), "second", write)
    assert set(entries(live)) == {"first:Apply", "second:Apply"}
    live = apply(live, small(paused=True), "first", write)
    assert live["spec"]["replicas"] == 1
    live = apply(live, small(paused=True), "second", write)
    assert "replicas" not in live["spec"]


def test_fields_no_longer_applied_are_removed_unless_others_own_them(deployment: Object, write: Write) -> None:
    live = stored(apply(None, deployment, "me", write))
    live = apply(live, {**small(), "metadata": {"name": "web", "labels": {"team": "x"}}}, "other", write)
    config = changed(deployment, "metadata", "labels", delete=True)
    after = apply(live, config, "me", write)
    assert after["metadata"]["labels"] == {"team": "x"}
    assert after["spec"] == deployment["spec"]


def test_a_container_no_longer_applied_is_removed_with_its_defaults(deployment: Object, write: Write) -> None:
    two = copy.deepcopy(deployment)
    two["spec"]["template"]["spec"]["containers"].append({"name": "side", "image": "s"})
    live = stored(apply(None, two, "me", write))
    live["spec"]["template"]["spec"]["containers"][1]["terminationMessagePath"] = "/dev/termination-log"
    after = apply(live, deployment, "me", write)
    assert [each["name"] for each in after["spec"]["template"]["spec"]["containers"]] == ["app"]


def test_foreign_items_keep_their_place(write: Write) -> None:
    def pod(*names: str) -> Object:
        return small(template={"spec": {"containers": [{"name": name} for name in names]}})

    live = stored(apply(None, pod("a", "b"), "me", write))
    live = apply(live, pod("injected"), "injector", write)
    after = apply(live, pod("b", "a"), "me", write)
    assert [each["name"] for each in after["spec"]["template"]["spec"]["containers"]] == ["b", "injected", "a"]


def test_an_update_takes_changed_fields_from_their_owner(deployment: Object, write: Write) -> None:
    live = stored(apply(None, deployment, "me", write))
    after = update(live, changed(live, "spec", "replicas", to=5), "scaler", replace(write, now=LATER))
    assert entries(after)["scaler:Update"] == {"f:spec": {"f:replicas": {}}}
    assert "f:replicas" not in entries(after)["me:Apply"]["f:spec"]
    assert times(after) == {"me": "2026-01-01T00:00:00Z", "scaler": "2026-01-02T00:00:00Z"}


def test_an_update_that_changes_nothing_keeps_entries_and_times(deployment: Object, write: Write) -> None:
    live = stored(update(None, deployment, "me", write))
    after = update(live, copy.deepcopy(live), "other", replace(write, now=LATER))
    assert after == live


def test_a_manager_that_owns_nothing_any_more_disappears(write: Write) -> None:
    live = stored(apply(None, small(replicas=1), "me", write))
    after = update(live, changed(live, "spec", "replicas", delete=True), "other", write)
    assert "managedFields" not in after["metadata"]


def test_status_is_owned_through_its_subresource(deployment: Object, write: Write) -> None:
    live = stored(update(None, {**deployment, "status": {}}, "me", write))
    status = replace(write, now=LATER, subresource="status", reset=FieldSet.fields("spec", "metadata"))
    after = update(live, {**live, "status": {"replicas": 1}}, "controller", status)
    entry = after["metadata"]["managedFields"][-1]
    assert (entry["manager"], entry["subresource"]) == ("controller", "status")
    assert entry["fieldsV1"] == {"f:status": {"f:replicas": {}}}


def test_a_write_without_a_time_leaves_none_and_sorts_first(deployment: Object, write: Write) -> None:
    live = stored(update(None, deployment, "me", write))
    scale = replace(write, now=None, subresource="scale")
    after = update(live, changed(live, "spec", "replicas", to=2), "scaler", scale)
    assert list(times(after).items()) == [("scaler", None), ("me", "2026-01-01T00:00:00Z")]


def test_reset_fields_are_owned_by_nobody(deployment: Object, write: Write) -> None:
    main = replace(write, reset=FieldSet.fields("status"))
    created = update(None, {**deployment, "status": {"replicas": 3}}, "me", main)
    assert "f:status" not in entries(created)["me:Update"]
    applied = apply(None, {**deployment, "status": {"replicas": 3}}, "me", main)
    assert "f:status" not in entries(applied)["me:Apply"]


def test_untracked_objects_stay_untracked_until_they_are_applied_to(deployment: Object, write: Write) -> None:
    live = stored(deployment)
    after = update(live, changed(live, "spec", "replicas", to=2), "me", write)
    assert "managedFields" not in after["metadata"]
    after = apply(live, {**small(), "metadata": {"name": "web", "labels": {"x": "y"}}}, "me", write)
    assert set(entries(after)) == {"before-first-apply:Update", "me:Apply"}
    with pytest.raises(Conflicts, match="before-first-apply"):
        apply(live, small(replicas=9), "me", write)


@pytest.mark.parametrize("sent", [[], [{}]])
def test_managed_fields_can_be_cleared(deployment: Object, write: Write, sent: list[Any]) -> None:
    live = stored(update(None, deployment, "me", write))
    cleared = {**live, "metadata": {**live["metadata"], "managedFields": sent}}
    assert "managedFields" not in update(live, cleared, "me", write)["metadata"]


def test_malformed_managed_fields_are_ignored(deployment: Object, write: Write) -> None:
    live = stored(update(None, deployment, "me", write))
    sent = {**live, "metadata": {**live["metadata"], "managedFields": [{"operation": "Guess"}]}}
    assert update(live, sent, "me", write)["metadata"]["managedFields"] == live["metadata"]["managedFields"]


def test_entries_are_sorted_applied_first_then_by_time_and_name(deployment: Object, write: Write) -> None:
    live = stored(update(None, deployment, "z-first", write))
    live = update(live, changed(live, "spec", "replicas", to=2), "a-later", replace(write, now=LATER))
    live = apply(live, {**small(), "metadata": {"name": "web", "labels": {"x": "y"}}}, "m", replace(write, now=LATER))
    assert [entry["manager"] for entry in live["metadata"]["managedFields"]] == ["m", "z-first", "a-later"]


def test_many_updaters_are_folded_into_one(write: Write) -> None:
    live = stored({**update(None, small(replicas=0), "m00", write)})
    for number in range(1, 15):
        new = {**live, "metadata": {**live["metadata"], "labels": {f"l{n}": "x" for n in range(number)}}}
        live = update(live, new, f"m{number:02}", write)
    managers = [entry["manager"] for entry in live["metadata"]["managedFields"]]
    assert len(managers) == 10
    assert "ancient-changes" in managers


def test_kubectl_may_take_over_what_it_applied_on_the_client_side(deployment: Object, write: Write) -> None:
    text = json.dumps(deployment)
    live = stored(
        update(
            None,
            changed(deployment, "metadata", "annotations", to={LAST_APPLIED: text}),
            "kubectl-client-side-apply",
            write,
        )
    )
    config = changed(deployment, "spec", "replicas", to=4)
    after = apply(live, config, "kubectl", write)
    assert after["spec"]["replicas"] == 4
    assert json.loads(after["metadata"]["annotations"][LAST_APPLIED]) == config
    with pytest.raises(Conflicts):
        apply(live, config, "someone", write)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (small(bogus=1), ".spec.bogus: field not declared in schema"),
        (small(replicas="x"), ".spec.replicas: expected numeric (int or float), got string"),
        (
            small(template={"spec": {"containers": [{"name": "a"}, {"name": "a"}]}}),
            '.spec.template.spec.containers: duplicate entries for key [name="a"]',
        ),
        (
            {**small(), "metadata": {"name": "web", "finalizers": ["x", "x"]}},
            '.metadata.finalizers: duplicate entries for key [="x"]',
        ),
        (
            {**small(), "metadata": {"name": "web", "ownerReferences": [None]}},
            ".metadata.ownerReferences: element 0: associative list with keys may not have a null element",
        ),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(config: Object, said: str, write: Write) -> None:
    with pytest.raises(TypedError) as caught:
        apply(None, config, "me", write)
    assert str(caught.value) == f"failed to create typed patch object (/web; apps/v1, Kind=Deployment): {said}"


def test_inputs_are_not_changed(deployment: Object, write: Write) -> None:
    live = stored(apply(None, deployment, "me", write))
    config = changed(deployment, "metadata", "labels", delete=True)
    before = json.dumps([live, config])
    apply(live, config, "me", write)
    update(live, config, "other", write)
    assert json.dumps([live, config]) == before


def test_true_is_not_one(write: Write) -> None:
    schema = crd_schema(
        {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    )
    open_ended = replace(write, schema=schema, api_version="x.io/v1")
    live = stored(apply(None, small(flag=1, deep={"flag": 1}), "me", open_ended))
    after = apply(live, small(flag=True, deep={"flag": True}), "me", open_ended)
    assert after["spec"]["flag"] is True
    assert after["spec"]["deep"]["flag"] is True


def test_a_custom_resource_that_becomes_atomic_is_owned_as_a_whole(write: Write) -> None:
    def version(**extra: Any) -> Write:
        spec = {"type": "object", "additionalProperties": {"type": "string"}, **extra}
        return replace(write, schema=crd_schema({"type": "object", "properties": {"spec": spec}}))

    live = stored(apply(None, small(a="1", b="2"), "me", version()))
    after = apply(live, small(a="1"), "me", version(**{"x-kubernetes-map-type": "atomic"}))
    assert after["spec"] == {"a": "1"}
    assert entries(after) == {"me:Apply": {"f:spec": {}}}


def test_owners_in_another_version_are_compared_in_that_version(write: Write) -> None:
    schema = crd_schema(
        {"type": "object", "properties": {"spec": {"type": "object", "additionalProperties": {"type": "string"}}}}
    )

    def convert(obj: Object, version: str) -> tuple[Object, Any] | None:
        if version == "x.io/gone":
            return None
        if version == "x.io/v1" or "spec" not in obj:
            return obj, schema
        return {**obj, "spec": {key.upper(): value for key, value in obj["spec"].items()}}, schema

    old = replace(write, schema=schema, api_version="x.io/V1")
    new = replace(write, schema=schema, api_version="x.io/v1", convert=convert)
    live = stored({**apply(None, small(A="1"), "old", old), "spec": {"a": "1"}})
    with pytest.raises(Conflicts, match=r'conflict with "old": .spec.A'):
        apply(live, small(a="2"), "me", new)
    gone = replace(write, schema=schema, api_version="x.io/gone")
    live = stored(apply(None, small(a="1"), "gone", gone))
    assert set(entries(apply(live, small(a="2"), "me", new))) == {"me:Apply"}
