"""Defects of upstream, by their number in the specification's section 12, that this operator does not have."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.objects import conditions_of, finalizers_of, labels_of
from modelyard.operators.certificates.controller import wanted_secret
from modelyard.operators.certificates.reach import makers_of
from modelyard.operators.model_registry.api import MODEL_REGISTRY
from modelyard.operators.model_registry.config import Settings
from modelyard.operators.model_registry.controller import registry_controller
from modelyard.operators.model_registry.facts import (
    CREATED_BY,
    FINALIZER,
    ReferenceGrant,
)
from modelyard.operators.model_registry.operator import operator
from modelyard.operators.parts.network import BackendTLSPolicy
from modelyard.operators.parts.platform import ClusterIngress
from modelyard.operators.parts.references import CONFIG_DIGEST
from modelyard.runtime.declaring.controller import Owns, Watch
from modelyard.runtime.declaring.desired import EventNote
from modelyard.runtime.testing import Bench, RunOutcome, bench
from tests.cluster.stories import Server

NS = "shop"
MYSQL = {"host": "h", "username": "u", "database": "db", "passwordSecret": {"name": "db", "key": "pw"}}
POSTGRES = {"host": "pg", "username": "u", "database": "db", "passwordSecret": {"name": "db", "key": "pw"}}
OPENSHIFT = (builtin.Route, builtin.Group)


def secret(name: str = "db", **values: str) -> Object:
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NS}, "data": data}


def registry(name: str = "mr", annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    body = {"rest": {}, **spec}
    if "postgres" not in body and "mysql" not in body:
        body["mysql"] = MYSQL
    metadata: Object = {"name": name, "namespace": NS} | ({"annotations": annotations} if annotations else {})
    kind = MODEL_REGISTRY.kind
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": body}


def ground(*objects: Object, served: Any = (), settings: Settings | None = None, **spec: Any) -> Bench:
    controller = registry_controller(settings or Settings(default_domain="example.com"))
    return bench(controller, registry(**spec), objects, served=served)


def settled(*objects: Object, **spec: Any) -> RunOutcome:
    return ground(*objects, **spec).settle()


def server(outcome: RunOutcome, name: str = "mr", container: str = "rest-container") -> Server:
    return Server(outcome.children[builtin.Deployment, name], container)


def test_q1_the_delegator_binding_goes_with_the_registry() -> None:
    made = ground(kubeRBACProxy={})
    made.settle()
    made.delete_resource()
    made.settle()
    assert made.cluster.list(builtin.ClusterRoleBinding, None, None) == []
    assert made.resource is None


def test_q2_a_registry_that_is_already_going_gets_no_finalizer() -> None:
    made = ground()
    made.edit_resource(lambda r: r["metadata"].update(finalizers=["other"], deletionTimestamp="2026-01-01T00:00:00Z"))
    outcome = made.run()
    assert outcome.writes == ()
    assert finalizers_of(outcome.resource or {}) == ["other"]


def test_q3_without_the_gateway_api_a_registry_still_goes() -> None:
    made = ground(settings=Settings(gateway_domain="g.example.com"))
    made.settle()
    made.delete_resource()
    made.settle()
    assert made.resource is None


def test_q4_a_registry_outside_the_namespace_can_still_go() -> None:
    made = ground(settings=Settings(namespace="elsewhere"))
    outcome = made.settle()
    assert outcome.condition("Available")["message"] == (
        'metadata.namespace: Invalid value: "shop": namespace must be elsewhere'
    )
    made.delete_resource()
    made.settle()
    assert made.resource is None


def test_q5_pins_and_resources_are_left_to_the_author() -> None:
    rest = {"image": "quay.io/opendatahub/model-registry:v1", "resources": {"requests": {"cpu": "2"}}}
    made = ground(rest=rest)
    outcome = made.settle()
    assert (outcome.resource or {})["spec"]["rest"].items() >= rest.items()
    assert server(outcome).container["image"] == rest["image"]


def test_q6_names_of_a_generated_database_are_honoured() -> None:
    outcome = settled(postgres={"generateDeployment": True, "username": "me", "database": "mine", "port": 6000})
    assert server(outcome).args[3].endswith("postgresql://me:$(POSTGRES_PASSWORD)@mr-postgres:6000/mine")
    assert server(outcome, "mr-postgres", "postgres").env["POSTGRESQL_DATABASE"] == "mine"
    (port,) = outcome.children[builtin.Service, "mr-postgres"]["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (6000, 5432)


def test_q6_names_that_come_too_late_are_refused_with_a_word() -> None:
    made = ground(postgres={"generateDeployment": True})
    made.settle()
    made.edit_resource(lambda r: r["spec"]["postgres"].update(username="me", database="mine"))
    outcome = made.run()
    assert server(outcome).args[3].endswith("modelregistry:$(POSTGRES_PASSWORD)@mr-postgres:5432/model_registry")
    said = [note.message for note in outcome.events if note.reason == "SpecNotHonoured"]
    assert said == [
        "spec.postgres.username is me, but the generated database was made with modelregistry; that is kept",
        "spec.postgres.database is mine, but the generated database was made with model_registry; that is kept",
    ]


def test_q7_the_server_never_has_an_empty_host() -> None:
    made = ground(postgres={"generateDeployment": True})
    first = made.run()
    assert first.children.names() == ["Secret mr-postgres-credentials", "ServiceAccount mr"]
    assert server(made.settle()).args[3].endswith("@mr-postgres:5432/model_registry")


def test_q8_a_claim_that_was_grown_by_hand_stays_so() -> None:
    made = ground(postgres={"generateDeployment": True})
    made.settle()

    def grow(claim: Object) -> None:
        claim["spec"]["resources"]["requests"]["storage"] = "20Gi"

    made.edit(builtin.PersistentVolumeClaim, NS, "mr-postgres-storage", grow)
    outcome = made.settle()
    claim = outcome.children[builtin.PersistentVolumeClaim, "mr-postgres-storage"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "20Gi"
    assert not outcome.failures


@pytest.mark.parametrize(
    ("served", "proxy", "policy"),
    [
        ((), {}, "mr-proxy"),
        (OPENSHIFT, {"serviceRoute": "disabled"}, "mr-proxy"),
        (OPENSHIFT, {"serviceRoute": "enabled"}, "mr-https-route"),
    ],
)
def test_q9_behind_a_proxy_only_its_port_is_reached(served: Any, proxy: Object, policy: str) -> None:
    outcome = settled(served=served, kubeRBACProxy=proxy)
    assert outcome.children.names(builtin.NetworkPolicy) == [policy]
    (rule,) = outcome.children[builtin.NetworkPolicy, policy]["spec"]["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": 8443}]


def pod(*containers: str, name: str = "mr-1") -> Object:
    labels = {"app": "mr", "component": "model-registry", "app.kubernetes.io/name": "mr"}
    statuses = [{"name": container, "ready": container != "mesh"} for container in containers]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NS, "labels": labels},
        "spec": {"containers": [{"name": container, "image": "x"} for container in containers]},
        "status": {"containerStatuses": statuses},
    }


def slice_(**endpoint: Any) -> Object:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "mr-x", "namespace": NS, "labels": {"kubernetes.io/service-name": "mr", **CREATED_BY}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"], **endpoint}],
    }


def up(deployment: Object) -> Object | None:
    if deployment["kind"] != "Deployment":
        return None
    condition = {"type": "Available", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return deployment | {"status": {"conditions": [condition]}}


def test_q10_an_injected_sidecar_does_not_matter() -> None:
    made = ground(pod("rest-container", "mesh", "kube-rbac-proxy"), slice_(), kubeRBACProxy={})
    outcome = made.settle(react=up)
    assert outcome.condition("KubeRBACProxyAvailable")["status"] == "True"
    assert outcome.condition("Available")["status"] == "True"


def test_q11_conditions_of_what_is_gone_go_too() -> None:
    made = ground(secret(pw="x"), kubeRBACProxy={})
    made.settle()
    old = {"status": "True", "reason": "Old", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    made.edit_resource(lambda r: r["status"]["conditions"].append({"type": "IstioAvailable", **old}))
    made.edit_resource(lambda r: r["spec"].pop("kubeRBACProxy"))
    outcome = made.settle()
    assert sorted(c["type"] for c in conditions_of(outcome.resource or {})) == ["Available", "Progressing"]


def test_q12_no_route_leads_to_a_port_that_is_not_there() -> None:
    made = ground(served=OPENSHIFT, rest={"serviceRoute": "enabled"}, kubeRBACProxy={})
    outcome = made.run()
    assert made.settle().children.names(builtin.Route) == ["mr-https"]
    assert any("leaves no plain port" in note.message for note in outcome.events)


def test_q13_no_host_is_named_that_does_not_exist() -> None:
    settings = Settings(gateway_domain="g.example.com")
    outcome = settled(settings=settings, kubeRBACProxy={"domain": "example.com"})
    assert outcome.status["hosts"] == ["mr.shop.svc.cluster.local", "mr.shop", "mr"]
    nowhere = settled(served=OPENSHIFT, settings=Settings(), kubeRBACProxy={})
    assert nowhere.status["hosts"][0] == "mr.shop.svc.cluster.local"
    assert "host" not in nowhere.children[builtin.Route, "mr-https"]["spec"]


def test_q14_an_address_goes_before_a_host() -> None:
    outcome = settled(postgres={**POSTGRES, "hostAddress": "fd00::1"})
    assert "@[fd00::1]:5432/db" in server(outcome).args[3]


def test_q14_fields_that_do_nothing_are_told() -> None:
    outcome = ground(mysql={**MYSQL, "skipDBCreation": True}, enable_database_upgrade=True).run()
    told = [note for note in outcome.events if note.reason == "SpecNotHonoured"]
    assert [note.type for note in told] == ["Warning", "Warning"]


def test_q15_parts_of_an_address_are_escaped() -> None:
    outcome = settled(postgres={**POSTGRES, "username": "a@b/c", "database": "d?e"})
    assert "postgresql://a%40b%2Fc:$(POSTGRES_PASSWORD)@pg:5432/d%3Fe?" in server(outcome).args[3]


def test_q15_a_password_that_no_url_can_hold_goes_another_way() -> None:
    outcome = settled(secret(pw="a/b#c%"), postgres=POSTGRES)
    assert "postgresql://u@pg:5432/db" in server(outcome).args[3]
    assert server(outcome).env["PGPASSWORD"] == {"secretKeyRef": {"name": "db", "key": "pw"}}
    plain = settled(secret(pw="harmless-1"), postgres=POSTGRES)
    assert "PGPASSWORD" not in server(plain).env


def test_q17_a_spec_that_cannot_be_deployed_says_so() -> None:
    outcome = settled(mysql=None)
    condition = outcome.condition("Available")
    assert (condition["status"], condition["reason"]) == ("False", "ConfigurationError")
    assert "required one of `postgres` or `mysql` database" in condition["message"]
    assert not outcome.children.names()


def test_q18_the_members_of_a_group_stay() -> None:
    made = ground(served=OPENSHIFT, kubeRBACProxy={})
    made.settle()

    def change(group: Object) -> None:
        group["users"] = ["ann"]
        group["metadata"]["labels"]["app"] = "wrong"

    made.edit(builtin.Group, "", "mr-users", change)
    group = made.settle().children[builtin.Group, "mr-users"]
    assert (group["users"], labels_of(group)["app"]) == (["ann"], "mr")


def test_q20_what_is_switched_off_goes() -> None:
    gateway = (*OPENSHIFT, builtin.HTTPRoute, ReferenceGrant)
    made = ground(served=gateway, settings=Settings(gateway_domain="g.example.com"), kubeRBACProxy={})
    assert made.settle().children.names(builtin.HTTPRoute) == ["model-registry-mr"]
    later = Bench(registry_controller(Settings()), made.cluster, made.key)
    later.settle()
    assert made.cluster.list(builtin.HTTPRoute, None, None) == []


def test_q21_only_what_belongs_to_registries_is_cached() -> None:
    """In a cluster full of others' objects: theirs are not held, or by their metadata alone."""
    controller = registry_controller(Settings())
    rows: tuple[Owns | Watch, ...] = (*controller.owns, *controller.watches)
    bare = {row.kind for row in rows if not row.labels}
    whole = {
        watch.kind for watch in controller.watches if not watch.labels and not watch.name and not watch.metadata_only
    }
    # Few, wherever one is: classes of storage, the cluster's own ingress, and a grant that all registries share.
    assert whole == {builtin.StorageClass, ClusterIngress}
    assert bare - whole == {builtin.Secret, builtin.ConfigMap, builtin.Lease, ReferenceGrant}
    assert builtin.Endpoints not in bare


def test_q22_every_container_may_run_restricted() -> None:
    outcome = settled(postgres={"generateDeployment": True}, kubeRBACProxy={})
    for name in ("mr", "mr-postgres"):
        pod_spec = outcome.children[builtin.Deployment, name]["spec"]["template"]["spec"]
        assert pod_spec["securityContext"]["runAsNonRoot"] is True
        assert pod_spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod_spec["containers"]:
            security = container["securityContext"]
            assert (security["allowPrivilegeEscalation"], security["capabilities"]) == (False, {"drop": ["ALL"]})


def test_q22_certificates_can_be_read_where_no_platform_assigns_groups() -> None:
    plain = settled(kubeRBACProxy={}).children[builtin.Deployment, "mr"]["spec"]["template"]["spec"]
    assert plain["securityContext"]["fsGroup"] == 65532
    openshift = settled(served=OPENSHIFT, kubeRBACProxy={}).children[builtin.Deployment, "mr"]
    assert "fsGroup" not in openshift["spec"]["template"]["spec"]["securityContext"]


def test_q23_the_proxys_configuration_is_repaired() -> None:
    made = ground(kubeRBACProxy={})
    made.settle()
    made.edit(builtin.ConfigMap, NS, "mr-kube-rbac-proxy-config", lambda c: c["data"].update({"config-file.yaml": "x"}))
    text = made.settle().children[builtin.ConfigMap, "mr-kube-rbac-proxy-config"]["data"]["config-file.yaml"]
    assert text.startswith("authorization:")


def waiting(name: str, app: str, reason: str) -> Object:
    made = pod("rest-container", name=name)
    made["metadata"]["labels"]["app.kubernetes.io/name"] = app
    state = {"waiting": {"reason": reason, "message": "back-off"}}
    made["status"]["containerStatuses"] = [{"name": "rest-container", "ready": False, "state": state}]
    return made


def down(obj: Object) -> Object | None:
    return obj | {"status": {"unavailableReplicas": 1}} if obj["kind"] == "Deployment" else None


def test_q24_a_pod_of_the_database_is_not_the_servers() -> None:
    made = ground(secret(pw="x"), waiting("pg", "mr-postgres", "CrashLoopBackOff"))
    message = made.settle(react=down).condition("Available")["message"]
    assert message == "Deployment is unavailable: 1 containers unavailable"


def test_a_pod_that_does_not_start_says_why() -> None:
    made = ground(waiting("mr-1", "mr", "CrashLoopBackOff"))
    message = made.settle(react=down).condition("Available")["message"]
    why = "rest-container: {waiting: {reason: CrashLoopBackOff, message: back-off}}"
    assert message == f"Deployment is unavailable: pod mr-1 has unready containers [{why}]"


@pytest.mark.parametrize(
    ("log", "reason", "message"),
    [
        (
            "x\nCheck failed: absl::OkStatus() == status (OK vs. UNAUTHENTICATED: denied) no login\n",
            "ConfigurationError",
            "database configuration error: no login: UNAUTHENTICATED: denied",
        ),
        (
            "Check failed: absl::OkStatus() == status (OK vs. A) b\nE {{ALERT}} the schema is dirty\n",
            "ResourcesAlert",
            "rest container alert: E {{ALERT}} the schema is dirty",
        ),
    ],
)
def test_what_a_server_writes_before_it_ends_is_told(log: str, reason: str, message: str) -> None:
    made = ground(waiting("mr-1", "mr", "CrashLoopBackOff"))
    made.cluster.written[NS, "mr-1", "rest-container"] = log
    condition = made.settle(react=down).condition("Available")
    assert (condition["reason"], condition["message"]) == (reason, message)


def test_q26_the_service_gets_a_certificate_anywhere() -> None:
    outcome = settled(kubeRBACProxy={})
    assert wanted_secret(outcome.children[builtin.Service, "mr"], makers_of([operator({})])) == "mr-kube-rbac-proxy"
    volume = server(outcome).volumes["kube-rbac-proxy-cert"]
    assert volume["secret"]["secretName"] == "mr-kube-rbac-proxy"


def test_a_namesake_is_left_alone_and_named() -> None:
    theirs: Object = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "mr", "namespace": NS}, "spec": {}}
    message = settled(theirs).condition("Available")["message"]
    assert message.startswith("unexpected reconcile error: Service mr: an object of this name exists")


def test_q29_a_password_is_nowhere_but_in_its_secret() -> None:
    outcome = settled(postgres={"generateDeployment": True})
    made = outcome.children[builtin.Secret, "mr-postgres-credentials"]
    held = {**(made.get("data") or {}), **(made.get("stringData") or {})}
    password = held["password"]
    elsewhere = [obj for obj in outcome.objects if obj["metadata"]["name"] != "mr-postgres-credentials"]
    assert password not in repr(elsewhere)
    assert password not in repr(made["metadata"])


def test_q30_pods_follow_what_they_read_at_start() -> None:
    made = ground(secret(pw="one"), postgres=POSTGRES)
    before = server(made.settle()).template["metadata"]["annotations"][CONFIG_DIGEST]
    made.cluster.put(secret(pw="two"))
    assert server(made.settle()).template["metadata"]["annotations"][CONFIG_DIGEST] != before


def test_q31_ports_that_clash_are_told() -> None:
    outcome = settled(rest={"port": 8443}, kubeRBACProxy={})
    assert "the REST server listens on this port" in outcome.condition("Available")["message"]


def test_resources_that_are_empty_are_a_choice() -> None:
    assert "resources" not in server(settled(rest={"resources": {}})).container
    assert server(settled()).container["resources"]["requests"]["cpu"] == "100m"


def test_the_pull_policy_follows_the_image() -> None:
    """The API fills a policy in only once: an image that is taken back would keep the policy of the chosen one."""
    made = ground(kubeRBACProxy={}, rest={"image": "mine:1"}, postgres={"generateDeployment": True, "image": "pg:1"})

    def policies(outcome: RunOutcome) -> list[str]:
        named = [("mr", "rest-container"), ("mr", "kube-rbac-proxy"), ("mr-postgres", "postgres")]
        return [server(outcome, name, container).container["imagePullPolicy"] for name, container in named]

    assert policies(made.settle()) == ["IfNotPresent", "Always", "IfNotPresent"]
    spec = {"rest": {}, "kubeRBACProxy": {"image": "proxy:2"}, "postgres": {"generateDeployment": True}}
    made.edit_resource(lambda resource: resource.update(spec=spec))
    assert policies(made.settle()) == ["Always", "IfNotPresent", "Always"]


def test_a_pod_that_waits_for_a_node_is_counted_and_explained() -> None:
    made = ground(secret(pw="x"))
    made.settle()
    lacking = {"type": "Available", "status": "False", "message": "Deployment does not have minimum availability."}
    status = {"replicas": 1, "unavailableReplicas": 1, "conditions": [lacking]}
    made.edit(builtin.Deployment, NS, "mr", lambda deployment: deployment.update(status=status))
    said = "Deployment is unavailable: 1 containers unavailable: "
    assert made.settle().condition("Available")["message"] == said + lacking["message"]
    labels = {"app": "mr", "component": "model-registry", "app.kubernetes.io/name": "mr"}
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mr-1", "namespace": NS, "labels": labels}}
    made.cluster.put(pod | {"status": {"phase": "Pending", "conditions": [scheduled]}})
    why = "pod mr-1 is not scheduled: {reason: Unschedulable, message: 0/1 nodes}"
    assert made.settle().condition("Available")["message"] == said + why


def test_a_domain_that_no_route_serves_is_told() -> None:
    notes = ground(kubeRBACProxy={"domain": "example.com"}).run().events
    (told,) = [note.message for note in notes if note.reason == "SpecNotHonoured"]
    assert told.startswith("spec.kubeRBACProxy.domain is example.com, but")
    assert not [n for n in ground(served=OPENSHIFT, kubeRBACProxy={"domain": "d"}).run().events if n.type == "Warning"]


def test_a_colon_in_a_mysql_user_does_not_end_the_name() -> None:
    outcome = settled(mysql={**MYSQL, "username": "a:b"})
    assert server(outcome).args[3].startswith("--embedmd-database-dsn=a%3Ab:$(MYSQL_PASSWORD)@tcp(h:3306)/db")


def test_kinds_may_come_and_go_while_the_operator_runs() -> None:
    made = ground(kubeRBACProxy={})
    assert made.settle().children.names(builtin.RoleBinding) == []
    for kind in OPENSHIFT:
        made.cluster.serve(kind)
    outcome = made.settle()
    assert outcome.children.names(builtin.Route) == ["mr-https"]
    assert outcome.children.names(builtin.Group) == ["mr-users"]
    made.cluster.serve(builtin.Group, False)
    assert made.settle().children.names(builtin.RoleBinding) == ["mr-users"]


def test_events_tell_what_happened_once() -> None:
    made = ground()
    made.settle()
    made.delete_resource()
    made.settle()
    assert made.cluster.events == [
        EventNote("ServiceCreated", "Created service for custom resource mr in namespace shop"),
        EventNote("Deleting", "Custom Resource mr is being deleted from the namespace shop", "Warning"),
    ]


def test_deletion_passes_through_both_words() -> None:
    made = ground()
    made.settle()
    made.edit_resource(lambda r: r["metadata"]["finalizers"].append("other"))
    made.delete_resource()
    outcome = made.run()
    assert outcome.writes.count("patch status ModelRegistry shop/mr") == 2
    assert outcome.condition("Degraded")["status"] == "True"
    assert FINALIZER not in finalizers_of(outcome.resource or {})


@pytest.mark.parametrize(
    ("fields", "argument"),
    [
        ({"sslCertificateSecret": {"name": "s", "key": "c"}}, "ssl-cert=/etc/mysql_ssl_cert/c"),
        ({"sslKeySecret": {"name": "s", "key": "k"}}, "ssl-key=/etc/mysql_ssl_key/k"),
        ({"sslRootCertificateSecret": {"name": "s", "key": "r"}}, "ssl-root-cert=/etc/mysql_ssl_rootcert/r"),
        ({"sslRootCertificatesConfigMapName": "s"}, "ssl-ca=/etc/mysql_ssl_rootcerts/"),
        ({"sslRootCertificatesSecretName": "s"}, "ssl-ca=/etc/mysql_ssl_rootcerts/"),
        ({"sslCipher": ""}, "ssl-cipher="),
        ({"verifyServerCert": False}, "ssl-verify-server-cert=false"),
    ],
)
def test_tls_to_mysql(fields: Object, argument: str) -> None:
    assert f"--embedmd-database-{argument}" in server(settled(mysql={**MYSQL, **fields})).args


def test_postgres_goes_before_mysql() -> None:
    assert server(settled(postgres=POSTGRES, mysql=MYSQL)).args[2] == "--embedmd-database-type=postgres"


def test_a_gateway_is_told_who_signed_the_certificate() -> None:
    signed = secret("mr-kube-rbac-proxy", **{"ca.crt": "the CA"})
    gateway = (builtin.HTTPRoute, BackendTLSPolicy)
    outcome = settled(signed, served=gateway, settings=Settings(gateway_domain="g.example.com"), kubeRBACProxy={})
    validation = outcome.children[BackendTLSPolicy, "mr"]["spec"]["validation"]
    assert validation["hostname"] == "mr.shop.svc"
    assert outcome.children[builtin.ConfigMap, "mr-serving-ca"]["data"] == {"ca.crt": "the CA"}
    route = outcome.children[builtin.HTTPRoute, "model-registry-mr"]
    assert route["metadata"]["namespace"] == NS
