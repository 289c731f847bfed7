"""Scenarios 38-41: the generated database."""

from __future__ import annotations

import base64
import re

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.objects import uid_of
from tests.cluster.model_registry.scenarios.story import GENERATED, POSTGRES, Book, Story
from tests.cluster.stories import Server
from tests.yard import MemoryYard

book = Book()
databases = book.scenario
SECRET = "mr-postgres-credentials"
CLAIM = "mr-postgres-storage"


def values(secret: Object) -> dict[str, str]:
    """What a Secret holds; in memory it is kept as it was written."""
    encoded = {key: base64.b64decode(value).decode() for key, value in (secret.get("data") or {}).items()}
    return encoded | (secret.get("stringData") or {})


@databases(38)
async def a_database_is_made(story: Story) -> None:
    await story.start()
    uid = uid_of(await story.create(postgres=GENERATED))
    await story.yard.until(builtin.Deployment, "mr-postgres")
    secret = values(await story.yard.get(builtin.Secret, SECRET))
    assert secret["username"] == "modelregistry"
    assert re.fullmatch(r"[A-Za-z0-9_-]{24}", secret["password"])
    claim = await story.yard.get(builtin.PersistentVolumeClaim, CLAIM)
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "5Gi"
    database = Server(await story.yard.get(builtin.Deployment, "mr-postgres"), "postgres")
    assert database.spec["strategy"]["type"] == "Recreate"
    assert database.volumes["postgres-storage"]["persistentVolumeClaim"]["claimName"] == CLAIM
    policy = await story.yard.get(builtin.NetworkPolicy, "mr-postgres")
    peers = policy["spec"]["ingress"][0]["from"]
    server = {"app": "mr", "component": "model-registry", "app.kubernetes.io/name": "mr"}
    assert peers == [{"podSelector": {"matchLabels": server}}]
    for kind, name in (
        (builtin.Secret, SECRET),
        (builtin.PersistentVolumeClaim, CLAIM),
        (builtin.Deployment, "mr-postgres"),
        (builtin.Service, "mr-postgres"),
        (builtin.NetworkPolicy, "mr-postgres"),
    ):
        (owner,) = (await story.yard.get(kind, name))["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (uid, True)


@databases(39)
async def the_server_is_told_about_it(story: Story) -> None:
    await story.start()
    await story.create(postgres=GENERATED)
    server = await story.server()
    dsn = "postgresql://modelregistry:$(POSTGRES_PASSWORD)@mr-postgres:5432/model_registry"
    assert server.args[3] == f"--embedmd-database-dsn={dsn}"
    assert server.env["POSTGRES_PASSWORD"] == {"secretKeyRef": {"name": SECRET, "key": "password"}}


@databases(40)
async def the_password_stays(story: Story) -> None:
    await story.start()
    await story.create(postgres=GENERATED)
    await story.yard.until(builtin.Deployment, "mr")
    before = values(await story.yard.get(builtin.Secret, SECRET))
    await story.edit(rest={"port": 8081})
    await story.yard.until(builtin.Deployment, "mr", lambda d: "--port=8081" in Server(d, "rest-container").args)
    await story.yard.halt()
    await story.start()
    assert values(await story.yard.get(builtin.Secret, SECRET)) == before


@databases(41)
async def another_database_keeps_the_data_of_the_first(story: Story) -> None:
    await story.start()
    await story.create(postgres=GENERATED)
    await story.yard.until(builtin.Deployment, "mr")
    before = values(await story.yard.get(builtin.Secret, SECRET))
    await story.edit(postgres={**POSTGRES, "hostAddress": "10.1.2.3"})
    await story.yard.until(
        builtin.Deployment, "mr", lambda d: "@10.1.2.3:5432/db" in Server(d, "rest-container").args[3]
    )
    # The server that is not used goes; what it would be hard to get back stays.
    await story.yard.gone(builtin.Deployment, "mr-postgres")
    await story.yard.get(builtin.PersistentVolumeClaim, CLAIM)
    assert values(await story.yard.get(builtin.Secret, SECRET)) == before
    await story.edit(postgres=GENERATED)
    await story.yard.until(builtin.Deployment, "mr-postgres")
    assert values(await story.yard.get(builtin.Secret, SECRET)) == before
    assert isinstance(story.yard, MemoryYard) or (await story.server()).args[3].endswith(
        "@mr-postgres:5432/model_registry"
    )
