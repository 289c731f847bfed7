"""Where certificates are issued: no further than the operators that are loaded, and with no more rights."""

from __future__ import annotations

import pytest

from modelyard.operators.certificates.operator import operator
from modelyard.operators.certificates.reach import Reach, reach_of
from modelyard.operators.demo.operator import operator as demo
from modelyard.operators.registry import load, shared
from modelyard.runtime.rbac import Grants, grants

GROUPS = frozenset({"mlflow.opendatahub.io", "modelregistry.opendatahub.io", "modelcatalog"})
WRITE = {"create", "update", "patch", "delete", "deletecollection"}


def role(environ: dict[str, str], *names: str) -> Grants:
    operators = load(names, environ)
    operators += shared(environ, operators)
    return grants([controller for each in operators for controller in each.controllers])


def verbs(made: Grants, place: str, resource: str) -> set[str]:
    """On any object of the resource, not only on some that are named."""
    return {
        verb
        for rule in made.rules(place)
        if resource in rule["resources"] and "resourceNames" not in rule
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize(
    ("names", "environ", "reach"),
    [
        (["mlflow"], {"MLFLOW_NAMESPACE": "ml"}, Reach(frozenset({"ml"}), everywhere=False)),
        (["model-registry"], {"REGISTRIES_NAMESPACE": "reg"}, Reach(frozenset({"reg"}), everywhere=False)),
        (
            ["mlflow", "model-registry"],
            {"MLFLOW_NAMESPACE": "ml", "REGISTRIES_NAMESPACE": "reg"},
            Reach(frozenset({"ml", "reg"}), everywhere=False),
        ),
        (["mlflow", "model-registry"], {"MLFLOW_NAMESPACE": "ml"}, Reach(frozenset({"ml"}), everywhere=True)),
    ],
)
def test_it_follows_from_the_operators_settings(names: list[str], environ: dict[str, str], reach: Reach) -> None:
    assert reach_of(load(names, environ), GROUPS) == reach


def test_operators_that_ask_for_no_certificates_do_not_count() -> None:
    assert reach_of([demo({})], GROUPS) == Reach(everywhere=False)
    assert operator({}, [demo({})]).controllers == []


def test_with_mlflow_alone_no_secret_outside_its_namespace_can_be_read_or_written() -> None:
    made = role({"MLFLOW_NAMESPACE": "ml", "POD_NAMESPACE": "plane"}, "mlflow")
    for resource in ("secrets", "services", "certificates"):
        assert verbs(made, "", resource) == set(), resource
    assert verbs(made, "ml", "secrets") >= {"create", "patch", "delete"}
    assert verbs(made, "ml", "services/finalizers") == {"update"}
    assert made.places == ["", "ml", "plane"]


@pytest.mark.parametrize("registries", ["", "reg"])
def test_services_status_is_never_written(registries: str) -> None:
    made = role({"REGISTRIES_NAMESPACE": registries}, "mlflow", "model-registry")
    for place in made.places:
        assert verbs(made, place, "services/status") == set()


def test_registries_in_any_namespace_need_certificates_in_any() -> None:
    assert verbs(role({}, "mlflow", "model-registry"), "", "secrets") >= {"create", "patch", "delete"}
    made = role({"REGISTRIES_NAMESPACE": "reg"}, "mlflow", "model-registry")
    assert verbs(made, "", "secrets") & WRITE == set()
    assert verbs(made, "reg", "secrets") >= {"create", "patch", "delete"}
