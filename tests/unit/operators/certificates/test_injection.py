"""The CA in ConfigMaps that ask for it: one key, for as long as they ask, whatever else is in them."""

from __future__ import annotations

import base64
from datetime import timedelta

import pytest

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.openshift import INJECT_CA
from modelyard.operators.certificates.config import CertificateSettings, Issuer, IssuerReference
from modelyard.operators.certificates.controller import ca_controller
from modelyard.operators.certificates.injection import KEY, injection_controller
from modelyard.operators.certificates.operator import operator
from modelyard.operators.registry import load
from modelyard.runtime.declaring.controller import Fixed
from modelyard.runtime.declaring.rbac import grants
from modelyard.runtime.testing import Bench, bench
from modelyard.runtime.testing.inmemory import NOW

HOME = "modelyard"


def config_map(asks: str = "true", **data: str) -> Object:
    metadata = {"name": "mlflow-ca-bundle", "namespace": "ml", "annotations": {INJECT_CA: asks} if asks else {}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata} | ({"data": data} if data else {})


def authority(after: timedelta = timedelta(), known: Object | None = None) -> Object:
    """The Secret of the CA, as its controller keeps it."""
    controller = ca_controller(CertificateSettings(HOME))
    assert isinstance(controller.for_, Fixed)
    (key,) = controller.for_.keys
    made = bench(controller, key, [known] if known else [], now=NOW + after)
    made.run()
    found = made.cluster.get(builtin.Secret, key)
    assert found is not None
    return found


def bundle(ca: Object) -> str:
    return base64.b64decode(ca["data"]["ca.crt"]).decode()


def stage(resource: Object, *objects: Object, served: tuple[Kind, ...] = (), issuer: Issuer = Issuer.AUTO) -> Bench:
    settings = CertificateSettings(HOME, issuer, reference=IssuerReference("my-issuer"))
    return bench(injection_controller(settings, {"ml"}), resource, objects, served=served)


def data(made: Bench) -> Object:
    (found,) = made.cluster.list(builtin.ConfigMap, "ml", None)
    kept: Object = found.get("data") or {}
    return kept


def test_a_config_map_that_asks_gets_the_ca_and_keeps_what_it_has() -> None:
    ca = authority()
    made = stage(config_map(mine="x"), ca)
    made.settle()
    assert data(made) == {KEY: bundle(ca), "mine": "x"}
    assert "tls.key" not in data(made)
    assert made.run().writes == ()


@pytest.mark.parametrize("asks", ["", "false", "True"])
def test_one_that_does_not_ask_is_left_alone(asks: str) -> None:
    made = stage(config_map(asks, mine="x"), authority())
    assert made.run().writes == ()


def test_it_is_taken_back_when_the_annotation_goes() -> None:
    made = stage(config_map(mine="x"), authority())
    made.settle()
    made.edit_resource(lambda resource: resource["metadata"]["annotations"].pop(INJECT_CA))
    made.settle()
    assert data(made) == {"mine": "x"}


def test_while_the_ca_is_replaced_both_are_in_it() -> None:
    first = authority()
    made = stage(config_map(), first)
    made.settle()
    second = authority(timedelta(days=2500), first)
    made.cluster.put(second)
    made.settle()
    assert data(made)[KEY] == bundle(second)
    assert bundle(first).strip() in data(made)[KEY]
    assert data(made)[KEY].count("BEGIN CERTIFICATE") == 2


def test_it_waits_for_the_ca() -> None:
    outcome = stage(config_map()).run()
    assert outcome.hold is not None
    assert "modelyard/modelyard-serving-ca" in outcome.hold.message


@pytest.mark.parametrize("issuer", [Issuer.CERT_MANAGER, Issuer.OPENSHIFT, Issuer.NONE])
def test_with_another_issuer_nothing_is_injected(issuer: Issuer) -> None:
    assert stage(config_map(), authority(), issuer=issuer).run().writes == ()


def test_ours_goes_where_openshift_comes() -> None:
    made = stage(config_map(mine="x"), authority())
    made.settle()
    made.cluster.serve(builtin.ConsoleLink)
    made.settle()
    assert data(made) == {"mine": "x"}


def test_a_value_that_someone_keeps_there_is_not_overwritten() -> None:
    controller = injection_controller(CertificateSettings(HOME), {"ml"})
    theirs = config_map(**{KEY: "theirs"})
    field: Object = {"f:data": {f"f:{KEY}": {}}}
    theirs["metadata"]["managedFields"] = [
        {"manager": "kubectl", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": field}
    ]
    made = bench(controller, theirs, [authority()])
    (failure,) = made.run().failures
    assert failure.reason == "Contested"
    assert KEY in failure.message
    assert data(made) == {KEY: "theirs"}


def test_it_reads_and_patches_config_maps_of_its_namespaces_and_no_others() -> None:
    made = grants([injection_controller(CertificateSettings(HOME), {"ml"})])
    granted = {place: verbs for (place, _, resource, _), verbs in made.verbs.items() if resource == "configmaps"}
    assert granted == {"ml": {"get", "list", "watch", "patch"}}
    assert not [resource for _, _, resource, _ in made.verbs if resource.startswith("configmaps/")]


@pytest.mark.parametrize(
    ("environ", "names", "where"),
    [
        ({"MLFLOW_NAMESPACE": "ml"}, ["mlflow"], ("ml",)),
        ({"MLFLOW_NAMESPACE": "ml"}, ["mlflow", "model-registry"], ("ml",)),
        ({"SERVING_CERTIFICATES_NAMESPACES": "a, b"}, ["model-registry"], ("a", "b")),
        ({}, ["model-registry"], None),
    ],
)
def test_only_the_platforms_own_namespaces_are_looked_at(
    environ: dict[str, str], names: list[str], where: tuple[str, ...] | None
) -> None:
    controllers = operator(environ, load(names, environ)).controllers
    found = [controller.namespaces for controller in controllers if controller.kind == builtin.ConfigMap]
    assert found == ([where] if where else [])
