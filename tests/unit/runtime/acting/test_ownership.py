"""Whose an object is, and that a namesake is never taken for ours."""

from __future__ import annotations

from modelyard.kube.builtin import ClusterRole, ConfigMap
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.names import label_value as problems_of_label
from modelyard.runtime.acting.ownership import Owner, belongs_to, may_take, owner_keys, stamp
from modelyard.runtime.declaring.desired import Child, Ownership

GREETING = Kind("demo.dev", "v1", "Greeting", "greetings")
OWNER = Owner("greetings", Key("shop", "hi"), GREETING, "uid-1")


def config(namespace: str = "shop", **metadata: object) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": namespace, **metadata}}


def test_a_child_in_another_namespace_is_tracked_by_labels_that_lead_back_to_the_owner() -> None:
    made = stamp(Child(config("other")), OWNER, ConfigMap)
    assert "ownerReferences" not in made["metadata"]
    assert list(owner_keys(made, "greetings", GREETING)) == [Key("shop", "hi")]
    assert belongs_to(made, OWNER)


def test_a_name_too_long_for_a_label_still_leads_back() -> None:
    owner = Owner("greetings", Key("shop", "n" * 200), GREETING, "uid-1")
    made = stamp(Child(config("other")), owner, ConfigMap)
    assert all(not problems_of_label(value) for value in made["metadata"]["labels"].values())
    assert list(owner_keys(made, "greetings", GREETING)) == [owner.key]


def test_owner_references_of_another_version_of_the_kind_count() -> None:
    reference = {"apiVersion": "demo.dev/v1beta1", "kind": "Greeting", "name": "hi", "uid": "uid-1"}
    assert list(owner_keys(config(ownerReferences=[reference]), "x", GREETING)) == [Key("shop", "hi")]
    other = reference | {"apiVersion": "other.dev/v1"}
    assert list(owner_keys(config(ownerReferences=[other]), "x", GREETING)) == []


def test_a_namesake_is_not_taken_whatever_it_looks_like() -> None:
    child = Child(config())
    assert not may_take(config(), child, OWNER, ConfigMap)
    stranger = {"apiVersion": "demo.dev/v1", "kind": "Greeting", "name": "hi", "uid": "uid-0", "controller": True}
    assert not may_take(config(ownerReferences=[stranger]), child, OWNER, ConfigMap)
    assert may_take(stamp(child, OWNER, ConfigMap), child, OWNER, ConfigMap)


def test_what_keep_left_behind_is_taken_again_only_by_adopt() -> None:
    kept = stamp(Child(config(), keep=True), OWNER, ConfigMap)
    again = Owner("greetings", Key("shop", "hi"), GREETING, "uid-2")
    assert not may_take(kept, Child(config(), keep=True), again, ConfigMap)
    assert may_take(kept, Child(config(), keep=True, adopt=True), again, ConfigMap)
    other = Owner("greetings", Key("shop", "other"), GREETING, "uid-3")
    assert not may_take(kept, Child(config(), adopt=True), other, ConfigMap)


def test_owners_of_a_shared_child_meet_on_it_under_managers_of_their_own() -> None:
    role: Object = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}}
    child = Child(role, ownership=Ownership.SHARED)
    second = Owner("greetings", Key("shop", "ho"), GREETING, "uid-2")
    made = stamp(child, OWNER, ClusterRole)
    assert may_take(made, child, second, ClusterRole)
    assert not belongs_to(made, second)
    assert OWNER.manager("m", Ownership.SHARED) != second.manager("m", Ownership.SHARED)
    assert OWNER.manager("m", Ownership.OWNED) == "m"
