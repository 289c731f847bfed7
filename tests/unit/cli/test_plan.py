"""What `modelyard plan` says: on a cluster field by field, without one up to the end, and refusals in the server's words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from greetings_operator.api import GREETING
from modelyard.cli import plan as command
from modelyard.cli.main import main
from modelyard.cli.simulation import simulate
from modelyard.failure import Failed
from modelyard.kube.builtin import ConfigMap, Deployment, HTTPRoute, Secret, Service
from modelyard.kube.errors import Invalid
from modelyard.kube.kinds import Key, Object
from modelyard.local.apiserver import ApiServer
from modelyard.runtime.acting.plan import Change, FieldChange, Plan, plan
from modelyard.runtime.declaring.desired import Hold
from modelyard.runtime.declaring.operator import Operator
from modelyard.runtime.process.manager import Manager
from tests.unit.cli.conftest import greeting

QUICKSTART = Path(__file__).parents[3] / "examples/quickstart.yaml"


def asked(demo: Operator, obj: Object) -> command.Asked:
    return command.sort_out([demo], [obj])[0][0]


def text_of(page: Any) -> str:
    console = Console(width=200, record=True, file=None, quiet=False)
    with console.capture() as captured:
        console.print(page)
    return captured.get()


async def offline(demo: Operator, *objects: Object, platform: str = "kubernetes") -> Plan:
    wanted, others = command.sort_out([demo], list(objects))
    (made,) = await simulate([demo], [(a.kind, a.resource) for a in wanted], others, platform)
    return made


async def test_offline_names_everything_up_to_the_ready_state(demo: Operator) -> None:
    made = await offline(demo, greeting(replicas=2))
    assert [f"{c.kind.kind} {c.key.name}" for c in made.of("create")] == [
        "ConfigMap hi", "Secret hi-key", "Deployment hi", "Service hi", "ClusterRole greeting-default-hi",
    ]  # fmt: skip
    (condition,) = [c for c in made.resulting["conditions"] if c["type"] == "Ready"]
    assert condition["status"] == "True"
    assert made.resulting["availableReplicas"] == 2


async def test_offline_takes_the_other_objects_of_the_files_as_given(demo: Operator) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}}
    without = await offline(demo, greeting(secretName="s"))
    assert not without.of("create")
    assert without.resulting["conditions"][0]["reason"] == "SecretMissing"
    given = await offline(demo, greeting(secretName="s"), secret)
    assert (Deployment, "hi") in [(c.kind, c.key.name) for c in given.of("create")]


async def test_offline_a_webhook_fills_in_and_refuses_in_its_own_words(demo: Operator) -> None:
    made = await offline(demo, greeting(text="  "))
    (config,) = [c for c in made.of("create") if c.kind == ConfigMap]
    assert config.sent is not None
    assert config.sent["data"] == {"index.txt": "Hello"}
    with pytest.raises(Invalid, match=r"denied the request.*must be at most 10"):
        await offline(demo, greeting(replicas=11))


async def test_offline_a_schema_error_is_the_servers_own(demo: Operator) -> None:
    with pytest.raises(Invalid, match=r"spec\.replicas: Invalid value: -1"):
        await offline(demo, greeting(replicas=-1))


async def test_offline_an_older_version_is_converted(demo: Operator) -> None:
    old = greeting() | {"apiVersion": "demo.modelyard.dev/v1alpha1", "spec": {"message": "Good day"}}
    made = await offline(demo, old)
    (config,) = [c for c in made.of("create") if c.kind == ConfigMap]
    assert config.sent is not None
    assert config.sent["data"] == {"index.txt": "Good day"}


async def test_manifests_are_portable_and_hold_no_secret(demo: Operator) -> None:
    text = command.as_manifests([await offline(demo, greeting())])
    objects = [d for d in yaml.safe_load_all(text) if d]
    assert {o["kind"] for o in objects} == {"ConfigMap", "Deployment", "Service", "ClusterRole"}
    assert "# Secret default/hi-key is left out" in text
    for obj in objects:
        assert not {"ownerReferences", "uid", "managedFields", "resourceVersion"} & obj["metadata"].keys()
        assert "status" not in obj


async def test_on_a_cluster_changes_are_shown_field_by_field(server: ApiServer, demo: Operator) -> None:
    client = server.client()
    await client.create(GREETING.kind, greeting())
    async with Manager(client, demo.controllers) as manager:
        await manager.idle(quiet=0.05)
    before = server.store.version
    made = await plan(client, demo.controllers[0], greeting(text="Bye", replicas=3))
    changed = {(c.kind, f.path): (f.before, f.after) for c in made.of("change") for f in c.fields}
    assert changed[ConfigMap, "data.index.txt"] == ("Hello", "Bye")
    assert changed[Deployment, "spec.replicas"] == (1, 3)
    assert not made.of("create")
    assert not made.of("delete")
    assert server.store.version == before, "a plan writes nothing"


def last_applied(obj: Object) -> Object:
    """As `kubectl apply` leaves it."""
    note = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(obj)}
    return obj | {"metadata": {**obj["metadata"], "annotations": note}}


@pytest.mark.parametrize("way", ["client-side", "server-side"])
async def test_on_a_cluster_a_field_that_is_no_longer_in_the_file_goes(
    way: str, server: ApiServer, demo: Operator
) -> None:
    client = server.client()
    if way == "client-side":
        await client.create(GREETING.kind, last_applied(greeting(host="a.b")))
    else:
        await client.apply(GREETING.kind, greeting(host="a.b"), field_manager="kubectl")
    async with Manager(client, demo.controllers) as manager:
        await manager.idle(quiet=0.05)
    made = await plan(client, demo.controllers[0], greeting())
    assert [(c.kind, c.key.name) for c in made.of("delete")] == [(HTTPRoute, "hi")]
    assert made.resulting["url"] == "http://hi.default.svc/"


async def test_on_a_cluster_nothing_to_do_is_said(server: ApiServer, demo: Operator) -> None:
    client = server.client()
    await client.create(GREETING.kind, greeting())
    async with Manager(client, demo.controllers) as manager:
        await manager.idle(quiet=0.05)
    made = await plan(client, demo.controllers[0], greeting())
    assert made.is_empty
    assert command.summary(made) == "nothing to do"


async def test_on_a_cluster_a_refusal_names_the_resource(server: ApiServer, demo: Operator) -> None:
    with pytest.raises(Failed, match=r"Greeting default/hi would be refused: .*spec\.replicas: Invalid value: -1"):
        await command.plan_all(server.client(), [asked(demo, greeting(replicas=-1))])


async def test_a_cluster_without_the_definition_is_said_with_the_remedy(demo: Operator) -> None:
    async with ApiServer() as bare:
        with pytest.raises(Failed, match=r"does not serve Greeting.*manifests --only crds"):
            await command.plan_all(bare.client(), [asked(demo, greeting())])


def test_the_page_reads_like_a_diff(demo: Operator) -> None:
    made = Plan(
        changes=(
            Change("create", Service, Key("shop", "hi")),
            Change("change", ConfigMap, Key("shop", "hi"), (FieldChange("data.a", "x", None),)),
            Change("delete", Deployment, Key("shop", "old")),
        ),
        hold=Hold("SecretMissing", "secret s not found"),
        waiting=True,
        resulting={"conditions": [{"type": "Ready", "status": "False", "reason": "Starting", "message": "0 of 1"}]},
    )
    assert text_of(command.page(asked(demo, greeting()), made)).splitlines() == [
        "Greeting default/hi",
        "  + Service shop/hi",
        "  ~ ConfigMap shop/hi",
        '      data.a: "x" -> (absent)',
        "  - Deployment shop/old",
        "  waits: SecretMissing: secret s not found",
        "  more follows once this is in place",
        "  status after the first pass",
        "      Ready=False  Starting: 0 of 1",
        "  1 to create, 1 to change, 1 to delete",
    ]


def test_a_secrets_values_are_never_shown() -> None:
    change = Change("change", Secret, Key("a", "b"), (FieldChange("data.key", "(hidden)", "(hidden)"),))
    assert "(hidden)" in command.field_line(change.fields[0])


def test_files_without_a_resource_of_ours_are_refused(demo: Operator) -> None:
    with pytest.raises(Failed, match="no custom resource of greetings; those are: Greeting"):
        command.sort_out([demo], [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}])


def test_a_kind_that_is_misspelled_is_named_with_the_object_and_what_was_meant(demo: Operator) -> None:
    with pytest.raises(
        Failed,
        match=r"Greting hi: demo.modelyard.dev/v1 has no such kind \(did you mean demo.modelyard.dev/v1 Greeting",
    ):
        command.sort_out([demo], [greeting(), greeting() | {"kind": "Greting"}])


async def test_on_a_cluster_a_missing_namespace_is_a_refusal(server: ApiServer, demo: Operator) -> None:
    lost = greeting()
    lost["metadata"]["namespace"] = "nowhere"
    wanted = [asked(demo, lost), asked(demo, greeting())]
    plans = await command.plan_all(server.client(), wanted)
    assert await command.missing_namespaces(server.client(), wanted, plans) == [
        "Greeting nowhere/hi would be refused: there is no namespace nowhere; make it with: kubectl create namespace nowhere"
    ]


def test_what_has_no_kind_here_is_left_out_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "more.yaml"
    file.write_text("apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: mine}\n")
    assert main(["plan", "--offline", "-f", str(QUICKSTART), str(file)]) == 0
    assert "Thing mine is left out: nothing serves example.com/v1 Thing" in capsys.readouterr().err


@pytest.mark.parametrize("amount", ["10 Gigs", "lots", "1.5.5"])
def test_an_amount_that_is_no_quantity_is_refused_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], amount: str
) -> None:
    file = tmp_path / "mlflow.yaml"
    file.write_text(QUICKSTART.read_text().replace("storage: 2Gi", f"storage: {amount}"))
    assert main(["plan", "--offline", "-f", str(file)]) == 1
    said = capsys.readouterr().err
    assert f'spec.storage.resources.requests.storage: Invalid value: "{amount}": must be a number with a unit' in said
    assert "[0-9]" not in said


def test_a_namespaced_resource_without_namespace_goes_to_default(demo: Operator) -> None:
    obj = greeting()
    del obj["metadata"]["namespace"]
    assert asked(demo, obj).title == "Greeting default/hi"


def test_the_command_plans_the_quickstart_offline(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan", "--operators", "mlflow", "--offline", "-f", str(QUICKSTART)]
    assert main([*arguments, "--exit-code", "-o", "json"]) == command.WOULD_CHANGE
    (found,) = json.loads(capsys.readouterr().out)
    assert found["name"] == "mlflow"
    assert {"Deployment", "Service", "PersistentVolumeClaim"} <= {c["kind"] for c in found["changes"]}


def test_the_command_says_in_one_line_what_the_server_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(QUICKSTART.read_text().replace("name: mlflow ", "name: other "))
    assert main(["plan", "--operators", "mlflow", "--offline", "-f", str(file)]) == 1
    said = capsys.readouterr().err
    assert "MLflow resource name must be 'mlflow'" in said
    assert "Traceback" not in said
    assert len(said.strip().splitlines()) == 1


@pytest.mark.parametrize("given", ["-f /dev/stdin < {file}", "-f <(cat {file})", "-f - < {file}"])
def test_the_command_reads_pipes_and_process_substitutions(given: str) -> None:
    words = f"{sys.executable} -m modelyard.cli.main plan --offline {given.format(file=QUICKSTART)}"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, timeout=120, env=dict(os.environ))
    assert (done.returncode, done.stderr) == (0, "")
    assert "MLflow" in done.stdout
