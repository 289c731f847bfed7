"""The facts of a custom resource definition, and what differs between two of them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.upstream.compare import compare
from tools.upstream_definitions import facts_of, without_words

COLUMNS = [{"name": "Size", "jsonPath": ".spec.size", "type": "integer", "priority": 1}]
SPEC = {"type": "object", "properties": {"size": {"type": "integer", "default": 1}}}
SCHEMA = {
    "type": "object",
    "required": ["spec"],
    "properties": {"spec": SPEC},
    "x-kubernetes-validations": [{"rule": "has(self.spec)", "message": "say what"}],
}
VERSIONS = [
    {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": COLUMNS,
        "schema": {"openAPIV3Schema": SCHEMA},
    },
    {"name": "v1alpha1", "served": True, "storage": False, "schema": {"openAPIV3Schema": {"type": "object"}}},
]
NAMES = {"kind": "Thing", "listKind": "ThingList", "plural": "things", "singular": "thing", "shortNames": ["th"]}
THINGS: dict[str, Any] = {
    "spec": {"group": "example.org", "scope": "Cluster", "names": NAMES, "versions": VERSIONS},
}


def changed(path: str, value: Any) -> dict[str, Any]:
    crd = copy.deepcopy(THINGS)
    node: Any = crd["spec"]
    *steps, last = [int(step) if step.isdecimal() else step for step in path.split("/")]
    for step in steps:
        node = node[step]
    if value is None:
        del node[last]
    else:
        node[last] = value
    return crd


ROOT = "versions/0/schema/openAPIV3Schema"


def test_a_definition_does_not_differ_from_itself_nor_from_its_digests() -> None:
    facts = facts_of(THINGS)
    assert compare(facts, facts) == []
    assert compare(facts, without_words(facts)) == []


def test_the_words_of_rules_and_messages_are_not_kept() -> None:
    kept = str(without_words(facts_of(THINGS)))
    assert "say what" not in kept
    assert "has(self.spec)" not in kept


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("scope", "Namespaced", ": scope is 'Cluster', upstream 'Namespaced'"),
        ("names/shortNames", [], "names: shortNames is ['th'], upstream 'absent'"),
        ("versions/1", None, "v1alpha1: version is 'present', upstream 'absent'"),
        ("versions/0/subresources", None, "v1: subresources is {'status': {}}, upstream 'absent'"),
        (
            "versions/0/additionalPrinterColumns/0/priority",
            0,
            "v1 column Size: priority is 1, upstream 0",
        ),
        (f"{ROOT}/properties/spec/properties/size", None, "v1.spec.size: field is 'present', upstream 'absent'"),
        (f"{ROOT}/properties/spec/properties/extra", {}, "v1.spec.extra: field is 'absent', upstream 'present'"),
        (
            f"{ROOT}/properties/spec/properties/size/type",
            "string",
            "v1.spec.size: type is 'integer', upstream 'string'",
        ),
        (f"{ROOT}/properties/spec/properties/size/default", 2, "v1.spec.size: default is 1, upstream 2"),
        (f"{ROOT}/properties/spec/properties/size/default", True, "v1.spec.size: default is 1, upstream True"),
        (f"{ROOT}/properties/spec/properties/size/minimum", 2, "v1.spec.size: minimum is 'absent', upstream 2"),
        (f"{ROOT}/properties/spec/properties/size/enum", [2], "v1.spec.size: enum is 'absent', upstream [2]"),
        (f"{ROOT}/required", [], "v1.spec: required is True, upstream False"),
        (f"{ROOT}/x-kubernetes-validations", None, "v1: rule is 'has(self.spec)', upstream 'absent'"),
        (
            f"{ROOT}/x-kubernetes-validations/0/message",
            "no",
            "v1: message of rule 'has(self.spec)' is 'say what', upstream 'no'",
        ),
        (f"{ROOT}/description", "other words", None),
    ],
)
def test_every_difference_is_named(path: str, value: Any, said: str | None) -> None:
    differences = compare(facts_of(THINGS), facts_of(changed(path, value)))
    assert [str(difference) for difference in differences] == ([said] if said else [])
    against_digests = compare(facts_of(THINGS), without_words(facts_of(changed(path, value))))
    assert [one.path for one in against_digests] == [one.path for one in differences]
