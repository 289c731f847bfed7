"""Free-form values inside typed objects, such as the defaults in a CRD's schema."""

from __future__ import annotations

from modelyard.kube.builtin import CustomResourceDefinition
from modelyard.kube.fieldsets import validate
from modelyard.kube.schema import builtin_schema


def test_a_default_of_maps_in_a_list_is_taken_as_it_is() -> None:
    schema = builtin_schema(CustomResourceDefinition)
    assert schema is not None
    rules = {"type": "array", "default": [{"matches": [{"path": {"type": "PathPrefix", "value": "/"}}]}]}
    version = {"name": "v1", "schema": {"openAPIV3Schema": {"type": "object", "properties": {"rules": rules}}}}
    validate({"metadata": {"name": "x"}, "spec": {"versions": [version]}}, schema)
