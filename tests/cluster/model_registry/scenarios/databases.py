"""Scenarios 38-41: the generated database."""

from __future__ import annotations

import base64
import re

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.objects import uid_of
from tests.cluster.model_registry.scenarios.scene import GENERATED, POSTGRES, Book, RegistryScene
from tests.cluster.stories import Server
from tests.ground import MemoryGround

book = Book()
databases = book.scenario
SECRET = "mr-postgres-credentials"
CLAIM = "mr-postgres-storage"


def values(secret: Object) -> dict[str, str]:
    """What a Secret holds; in memory it is kept as it was written."""
    encoded = {key: base64.b64decode(value).decode() for key, value in (secret.get("data") or {}).items()}
    return encoded | (secret.get("stringData") or {})


@databases(38)
async def a_database_is_made(scene: RegistryScene) -> None:
    await scene.start()
    uid = uid_of(await scene.create(postgres=GENERATED))
    await scene.ground.until(builtin.Deployment, "mr-postgres")
    secret = values(await scene.ground.get(builtin.Secret, SECRET))
    assert secret["username"] == "modelregistry"
    assert re.fullmatch(r"[A-Za-z0-9_-]{24}", secret["password"])
    claim = await scene.ground.get(builtin.PersistentVolumeClaim, CLAIM)
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "5Gi"
    database = Server(await scene.ground.get(builtin.Deployment, "mr-postgres"), "postgres")
    assert database.spec["strategy"]["type"] == "Recreate"
    assert database.volumes["postgres-storage"]["persistentVolumeClaim"]["claimName"] == CLAIM
    policy = await scene.ground.get(builtin.NetworkPolicy, "mr-postgres")
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
        (owner,) = (await scene.ground.get(kind, name))["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (uid, True)


@databases(39)
async def the_server_is_told_about_it(scene: RegistryScene) -> None:
    await scene.start()
    await scene.create(postgres=GENERATED)
    server = await scene.server()
    dsn = "postgresql://modelregistry:$(POSTGRES_PASSWORD)@mr-postgres:5432/model_registry"
    assert server.args[3] == f"--embedmd-database-dsn={dsn}"
    assert server.env["POSTGRES_PASSWORD"] == {"secretKeyRef": {"name": SECRET, "key": "password"}}


@databases(40)
async def the_password_stays(scene: RegistryScene) -> None:
    await scene.start()
    await scene.create(postgres=GENERATED)
    await scene.ground.until(builtin.Deployment, "mr")
    before = values(await scene.ground.get(builtin.Secret, SECRET))
    await scene.edit(rest={"port": 8081})
    await scene.ground.until(builtin.Deployment, "mr", lambda d: "--port=8081" in Server(d, "rest-container").args)
    await scene.ground.halt()
    await scene.start()
    assert values(await scene.ground.get(builtin.Secret, SECRET)) == before


@databases(41)
async def another_database_keeps_the_data_of_the_first(scene: RegistryScene) -> None:
    await scene.start()
    await scene.create(postgres=GENERATED)
    await scene.ground.until(builtin.Deployment, "mr")
    before = values(await scene.ground.get(builtin.Secret, SECRET))
    await scene.edit(postgres={**POSTGRES, "hostAddress": "10.1.2.3"})
    await scene.ground.until(
        builtin.Deployment, "mr", lambda d: "@10.1.2.3:5432/db" in Server(d, "rest-container").args[3]
    )
    # The server that is not used goes; what it would be hard to get back stays.
    await scene.ground.gone(builtin.Deployment, "mr-postgres")
    await scene.ground.get(builtin.PersistentVolumeClaim, CLAIM)
    assert values(await scene.ground.get(builtin.Secret, SECRET)) == before
    await scene.edit(postgres=GENERATED)
    await scene.ground.until(builtin.Deployment, "mr-postgres")
    assert values(await scene.ground.get(builtin.Secret, SECRET)) == before
    assert isinstance(scene.ground, MemoryGround) or (await scene.server()).args[3].endswith(
        "@mr-postgres:5432/model_registry"
    )
