"""Defects of upstream, by their number in the specification's section 12, that only an API server can show to be gone."""

from __future__ import annotations

import base64

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.objects import resource_version_of, uid_of
from modelyard.operators.parts.references import CONFIG_DIGEST
from modelyard.runtime.declaring.operator import Operator
from modelyard.runtime.webhooks import AdmissionRequest, Denied, Webhook
from tests.cluster.model_registry.scenarios.scene import GENERATED, POSTGRES, RegistryScene
from tests.cluster.stories import Server
from tests.ground import ApiGround


async def test_q21_nobodys_secrets_are_held(scene: RegistryScene) -> None:
    """Without REGISTRIES_NAMESPACE everything is looked at; only what a registry names is read, and what changes is noticed."""
    assert isinstance(scene.ground, ApiGround)
    await scene.ground.create(builtin.Secret, "huge", data={"release": base64.b64encode(b"x" * 100_000).decode()})
    await scene.ground.create(builtin.Secret, "db-secret", data={"pw": "b25l"})
    await scene.start(anywhere=True)
    await scene.create(postgres=POSTGRES)
    before = (await scene.server()).template["metadata"]["annotations"][CONFIG_DIGEST]
    assert scene.ground.manager is not None
    held = [cache for cache in scene.ground.manager.caches if cache.selection.kind == builtin.Secret]
    assert max(len(entry.raw) for cache in held for entry in cache.list()) < 10_000
    await scene.ground.edit(builtin.Secret, "db-secret", lambda secret: secret["data"].update(pw="dHdv"))

    def follows(deployment: Object) -> bool:
        return bool(Server(deployment).template["metadata"]["annotations"][CONFIG_DIGEST] != before)

    await scene.ground.until(builtin.Deployment, "mr", follows)
    # A label on the Secret is not a reason to start again.
    rested = await scene.ground.get(builtin.Deployment, "mr")
    await scene.ground.edit(builtin.Secret, "db-secret", lambda secret: secret["metadata"].update(labels={"a": "b"}))
    assert resource_version_of(await scene.ground.get(builtin.Deployment, "mr")) == resource_version_of(rested)


async def test_q7_an_update_that_is_forbidden_deletes_nothing(scene: RegistryScene) -> None:
    assert isinstance(scene.ground, ApiGround)
    forbidding = True

    def forbid(request: AdmissionRequest) -> Denied | None:
        return Denied("not now", code=400) if request.namespace == scene.namespace and forbidding else None

    await scene.start()
    await scene.create(postgres=GENERATED)
    before = [uid_of(await scene.ground.until(builtin.Deployment, name)) for name in ("mr", "mr-postgres")]
    await scene.ground.quiet()
    hook = Webhook(
        "forbid.example.com", "validating", "/forbid", forbid, kinds=(builtin.Deployment,), operations=("UPDATE",)
    )
    await scene.ground.serve_webhooks(Operator("forbidding", "", "", [], webhooks=[hook]))
    await scene.edit(rest={"port": 8081, "image": "other"}, postgres={**GENERATED, "image": "postgresql:other"})
    for name in ("mr", "mr-postgres"):
        await scene.says("Available", "unexpected reconcile error: Deployment mr", status="False")
        assert uid_of(await scene.ground.until(builtin.Deployment, name)) in before
    forbidding = False
    for name in ("mr", "mr-postgres"):
        found = await scene.ground.until(
            builtin.Deployment, name, lambda d: "other" in d["spec"]["template"]["spec"]["containers"][0]["image"]
        )
        assert uid_of(found) in before
