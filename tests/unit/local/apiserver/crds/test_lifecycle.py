"""Names, versions and warnings of definitions."""

from typing import Any

import pytest

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.crds.lifecycle import accept_names, deprecation_warning, version_rank

WANTED: Object = {
    "plural": "things",
    "singular": "thing",
    "shortNames": ["th"],
    "kind": "Thing",
    "listKind": "ThingList",
}


def test_free_names_are_accepted() -> None:
    assert accept_names(WANTED, {}, (set(), set())) == (WANTED, None)


@pytest.mark.parametrize(
    ("claimed", "reason", "message", "missing"),
    [
        (({"things"}, set()), "PluralConflict", '"things" is already in use', "plural"),
        (({"thing"}, set()), "SingularConflict", '"thing" is already in use', "singular"),
        (({"th"}, set()), "ShortNamesConflict", '"th" is already in use', "shortNames"),
        ((set(), {"Thing"}), "KindConflict", '"Thing" is already in use', "kind"),
        ((set(), {"ThingList"}), "ListKindConflict", '"ThingList" is already in use', "listKind"),
    ],
)
def test_taken_name_is_told_and_the_others_accepted(claimed: Any, reason: str, message: str, missing: str) -> None:
    accepted, problem = accept_names(WANTED, {}, claimed)
    assert problem == (reason, message)
    assert not accepted.get(missing)
    assert {name: value for name, value in accepted.items() if value} == {
        n: v for n, v in WANTED.items() if n != missing
    }


def test_own_names_are_no_conflict() -> None:
    assert accept_names(WANTED, WANTED, ({"things"}, {"Thing"}))[1] is None


def test_versions_are_ordered_by_stability_then_number() -> None:
    names = ["foo1", "v1alpha1", "v10", "v2beta1", "v2", "v1beta2", "v1", "foo10", "v11alpha2"]
    assert sorted(names, key=version_rank, reverse=True) == [
        "v10", "v2", "v1", "v2beta1", "v1beta2", "v11alpha2", "v1alpha1", "foo1", "foo10",
    ]  # fmt: skip


def test_deprecation_warning_names_the_newest_other_version() -> None:
    old: Object = {"name": "v1beta1", "served": True, "deprecated": True}
    spec: Object = {"group": "g.io", "names": {"kind": "Thing"}, "versions": [old]}
    assert deprecation_warning(old, spec) == "g.io/v1beta1 Thing is deprecated"
    spec["versions"] += [
        {"name": "v1", "served": True},
        {"name": "v2", "served": True},
        {"name": "v3", "served": False},
    ]
    assert deprecation_warning(old, spec) == "g.io/v1beta1 Thing is deprecated; use g.io/v2 Thing"
    assert deprecation_warning(old | {"deprecationWarning": "go away"}, spec) == "go away"
