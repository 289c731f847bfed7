"""Objects that others make, keep or delete: Secrets that a registry reads, accounts and bindings that have its names."""

from __future__ import annotations

import pytest

from modelyard.kube import builtin
from modelyard.kube.kinds import Key, Object
from modelyard.operators.model_registry.catalog.children import DATABASE as CATALOG_SECRET
from modelyard.operators.model_registry.catalog.children import HEALTH, NAME
from modelyard.operators.model_registry.catalog.children import SECRET_KEYS as CATALOG_KEYS
from modelyard.operators.model_registry.catalog.controller import catalog_controller
from modelyard.operators.model_registry.config import Settings
from modelyard.operators.model_registry.facts import NAMESPACE_LABEL, UPSTREAM, Names
from modelyard.operators.parts import rbac_proxy
from modelyard.operators.parts.references import CONFIG_DIGEST
from modelyard.runtime.testing import Bench, RunOutcome, bench, make_ready
from tests.unit.operators.model_registry.test_quirks import NS, POSTGRES, ground, secret, server

GENERATED = {"generateDeployment": True}
CREDENTIALS = "mr-postgres-credentials"


def without(made: Bench, name: str) -> RunOutcome:
    """The registry after someone has deleted a Secret."""
    made.cluster.remove(builtin.Secret, NS, name)
    return made.settle()


@pytest.mark.parametrize("password", ["harmless", "a/b#c%"])
def test_a_secret_that_is_deleted_does_not_end_the_server(password: str) -> None:
    made = ground(secret(pw=password), postgres=POSTGRES)
    before = server(made.settle()).template
    after = without(made, "db")
    assert server(after).template == before
    found = after.condition("ReferencesFound")
    assert (found["status"], found["reason"]) == ("False", "Missing")
    assert found["message"].startswith("Secret db does not exist: create it with the key pw.")
    made.cluster.put(secret(pw=password))
    again = made.settle()
    assert server(again).template == before
    assert "ReferencesFound" not in again.conditions
    made.cluster.put(secret(pw="other"))
    assert server(made.settle()).template["metadata"] != before["metadata"]


def test_a_key_that_is_taken_out_of_a_secret_is_named() -> None:
    made = ground(secret(pw="x"), postgres=POSTGRES)
    before = server(made.settle()).template
    made.cluster.put(secret(other="x"))
    after = made.settle()
    assert server(after).template == before
    assert after.condition("ReferencesFound")["message"].startswith("Secret db has no key pw: add it.")


def test_everything_that_is_missing_is_named() -> None:
    tls = {"sslMode": "verify-full", "sslRootCertificateConfigMap": {"name": "ca", "key": "ca.crt"}}
    message = ground(postgres={**POSTGRES, **tls}).settle().condition("ReferencesFound")["message"]
    assert "Secret db does not exist: create it with the key pw; ConfigMap ca does not exist" in message


def catalog_secret() -> Object:
    return secret(CATALOG_SECRET, **dict.fromkeys(CATALOG_KEYS, "x"))


def test_the_catalog_goes_on_without_the_secret_that_someone_provided() -> None:
    catalog = catalog_controller(Settings(namespace=NS, catalog_database=False))
    made = bench(catalog, Key(NS, NAME), [catalog_secret()])
    before = made.settle(make_ready).children[builtin.Deployment, NAME]["spec"]["template"]
    assert CONFIG_DIGEST in before["metadata"]["annotations"]
    after = without(made, CATALOG_SECRET)
    assert after.children[builtin.Deployment, NAME]["spec"]["template"] == before
    said = after.children[builtin.ConfigMap, HEALTH]["data"]["message"]
    assert f"Secret {CATALOG_SECRET} does not exist: create it with the key database-password" in said


def test_credentials_that_are_there_are_used_as_they_are() -> None:
    provided = secret(CREDENTIALS, username="ann", password="chosen")
    made = ground(provided, postgres={**GENERATED, "username": "ignored", "database": "shop_db"})
    outcome = made.settle()
    assert not outcome.failures
    assert made.cluster.get(builtin.Secret, Key(NS, CREDENTIALS)) is not None
    kept = made.cluster.get(builtin.Secret, Key(NS, CREDENTIALS)) or {}
    assert (kept["data"], kept["metadata"].get("ownerReferences")) == (provided["data"], None)
    assert server(outcome).args[3].endswith("postgresql://ann:$(POSTGRES_PASSWORD)@mr-postgres:5432/shop_db")
    database = server(outcome, "mr-postgres", "postgres")
    assert database.env["POSTGRESQL_PASSWORD"] == {"secretKeyRef": {"name": CREDENTIALS, "key": "password"}}
    # The database has the name that it was made with, also when another is asked for later.
    made.edit_resource(lambda registry: registry["spec"]["postgres"].update(database="later"))
    assert server(made.settle()).args[3].endswith("/shop_db")
    made.delete_resource()
    made.settle()
    assert made.cluster.get(builtin.Secret, Key(NS, CREDENTIALS)) is not None


def test_credentials_that_lack_a_key_are_named_before_anything_starts() -> None:
    made = ground(secret(CREDENTIALS, username="ann"), postgres=GENERATED)
    outcome = made.settle()
    assert outcome.children.names(builtin.Deployment) == []
    available = outcome.condition("Available")
    assert (available["reason"], available["message"]) == (
        "ConfigurationError",
        f"Secret {CREDENTIALS} has no key password: add it",
    )
    made.cluster.put(secret(CREDENTIALS, username="ann", password="x"))
    assert made.settle().children.names(builtin.Deployment) == ["mr", "mr-postgres"]


def test_nothing_runs_as_someone_elses_account() -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "mr", "namespace": NS}}
    made = ground(account, secret(pw="x"), postgres=GENERATED, kubeRBACProxy={})
    outcome = made.settle()
    assert outcome.children.names(builtin.Deployment) == []
    assert made.cluster.list(builtin.ClusterRoleBinding, None, None) == []
    message = outcome.condition("Available")["message"]
    assert message.startswith("nothing is started: a ServiceAccount named mr exists in the namespace")
    made.cluster.remove(builtin.ServiceAccount, NS, "mr")
    assert made.settle().children.names(builtin.Deployment) == ["mr", "mr-postgres"]


def old_binding(namespace: str) -> Object:
    """As upstream makes it."""
    names = Names("mr", namespace)
    labels = names.labels(names.old_auth_delegator) | {NAMESPACE_LABEL: namespace}
    made = rbac_proxy.auth_delegator(names.old_auth_delegator, "mr", namespace, labels)
    made["metadata"]["managedFields"] = [{"manager": UPSTREAM.managers[0], "operation": "Update"}]
    return made


@pytest.mark.parametrize(("namespace", "left"), [(NS, []), ("elsewhere", ["mr-auth-delegator"])])
def test_only_the_binding_of_this_registry_is_replaced(namespace: str, left: list[str]) -> None:
    made = ground(old_binding(namespace), secret(pw="x"), kubeRBACProxy={})
    assert not made.settle().failures
    names = [binding["metadata"]["name"] for binding in made.cluster.list(builtin.ClusterRoleBinding, None, None)]
    assert sorted(names) == sorted([*left, f"mr-auth-delegator.{NS}"])
    made.delete_resource()
    made.settle()
    after = made.cluster.list(builtin.ClusterRoleBinding, None, None)
    assert [binding["metadata"]["name"] for binding in after] == left


def test_the_binding_of_an_earlier_version_goes_when_the_new_one_is_there() -> None:
    made = ground(secret(pw="x"), kubeRBACProxy={})
    made.settle()
    now = f"mr-auth-delegator.{NS}"
    earlier = made.cluster.get(builtin.ClusterRoleBinding, Key("", now)) or {}
    made.cluster.remove(builtin.ClusterRoleBinding, "", now)
    made.cluster.put(earlier | {"metadata": earlier["metadata"] | {"name": "mr-auth-delegator"}})
    made.settle()
    after = made.cluster.list(builtin.ClusterRoleBinding, None, None)
    assert [binding["metadata"]["name"] for binding in after] == [now]


def test_the_end_is_not_told_before_it_is_there() -> None:
    made = ground(secret(pw="x"), kubeRBACProxy={})
    made.settle()
    name = f"mr-auth-delegator.{NS}"
    made.edit(builtin.ClusterRoleBinding, "", name, lambda b: b["metadata"].update(finalizers=["example.com/hold"]))
    made.delete_resource()
    outcome = made.settle()
    degraded = outcome.condition("Degraded")
    assert degraded["status"] == "Unknown"
    assert (
        f"waiting for ClusterRoleBinding {name} to be gone, which its finalizers example.com/hold hold"
        in (degraded["message"])
    )
    made.edit(builtin.ClusterRoleBinding, "", name, lambda b: b["metadata"].pop("finalizers"))
    made.cluster.remove(builtin.ClusterRoleBinding, "", name)
    made.settle()
    assert made.resource is None
