"""Where certificates are issued: no further than the operators that are loaded, and with no more rights."""

from __future__ import annotations

import pytest

from greetings_operator.operator import operator as demo
from modelyard.kube import builtin
from modelyard.kube.kinds import Kind
from modelyard.operators.certificates.operator import operator
from modelyard.operators.certificates.reach import Reach, makers_of, reach_of
from modelyard.operators.registry import load, shared
from modelyard.runtime.declaring.controller import Controller, Owns
from modelyard.runtime.declaring.operator import Operator
from modelyard.runtime.declaring.rbac import Grants, grants

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
    assert reach_of(load(names, environ)) == reach


def users_operator(*, asks: bool) -> Operator:
    owns = [Owns(builtin.Service, namespace="web", serving_certificates=asks)]
    kind = Kind("example.com", "v1", "Website", "websites")
    return Operator("websites", "Websites", "none", [Controller("websites", kind, owns=owns)])


def test_an_operator_of_a_user_says_that_its_services_want_certificates() -> None:
    theirs = users_operator(asks=True)
    assert makers_of([theirs]) == {"example.com"}
    assert reach_of([theirs]) == Reach(frozenset({"web"}), everywhere=False)
    assert [c.name for c in operator({}, [theirs]).controllers] == [
        "serving-ca",
        "serving-certificates",
        "serving-ca-injection",
    ]


def test_services_without_that_declaration_get_none() -> None:
    theirs = users_operator(asks=False)
    assert makers_of([theirs]) == frozenset()
    assert operator({}, [theirs]).controllers == []


def test_ours_say_it_themselves() -> None:
    ours = {"mlflow.opendatahub.io", "modelregistry.opendatahub.io", "modelcatalog", "ray.io"}
    assert makers_of(load(None, {})) == ours


def test_operators_that_ask_for_no_certificates_do_not_count() -> None:
    assert reach_of([demo({})]) == Reach(everywhere=False)
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
