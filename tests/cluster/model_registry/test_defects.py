"""Defects of upstream, by their number in the specification's section 12, that only an API server can show to be gone."""

from __future__ import annotations

import base64

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.objects import resource_version_of, uid_of
from modelyard.operators.model_registry.facts import CONFIG_DIGEST
from modelyard.runtime.operator import Operator
from modelyard.runtime.webhooks import AdmissionRequest, Denied, Webhook
from tests.cluster.model_registry.scenarios.story import GENERATED, POSTGRES, Story
from tests.cluster.stories import Server
from tests.yard import ApiYard


async def test_q21_nobodys_secrets_are_held(story: Story) -> None:
    """Without REGISTRIES_NAMESPACE everything is looked at; only what a registry names is read, and what changes is noticed."""
    assert isinstance(story.yard, ApiYard)
    await story.yard.create(builtin.Secret, "huge", data={"release": base64.b64encode(b"x" * 100_000).decode()})
    await story.yard.create(builtin.Secret, "db-secret", data={"pw": "b25l"})
    await story.start(anywhere=True)
    await story.create(postgres=POSTGRES)
    before = (await story.server()).template["metadata"]["annotations"][CONFIG_DIGEST]
    assert story.yard.manager is not None
    held = [cache for cache in story.yard.manager.caches if cache.selection.kind == builtin.Secret]
    assert max(len(entry.raw) for cache in held for entry in cache.list()) < 10_000
    await story.yard.edit(builtin.Secret, "db-secret", lambda secret: secret["data"].update(pw="dHdv"))

    def follows(deployment: Object) -> bool:
        return bool(Server(deployment).template["metadata"]["annotations"][CONFIG_DIGEST] != before)

    await story.yard.until(builtin.Deployment, "mr", follows)
    # A label on the Secret is no reason to start anew.
    rested = await story.yard.get(builtin.Deployment, "mr")
    await story.yard.edit(builtin.Secret, "db-secret", lambda secret: secret["metadata"].update(labels={"a": "b"}))
    assert resource_version_of(await story.yard.get(builtin.Deployment, "mr")) == resource_version_of(rested)


async def test_q7_an_update_that_is_forbidden_deletes_nothing(story: Story) -> None:
    assert isinstance(story.yard, ApiYard)
    forbidding = True

    def forbid(request: AdmissionRequest) -> Denied | None:
        return Denied("not now", code=400) if request.namespace == story.namespace and forbidding else None

    await story.start()
    await story.create(postgres=GENERATED)
    before = [uid_of(await story.yard.until(builtin.Deployment, name)) for name in ("mr", "mr-postgres")]
    await story.yard.quiet()
    hook = Webhook(
        "forbid.example.com", "validating", "/forbid", forbid, kinds=(builtin.Deployment,), operations=("UPDATE",)
    )
    await story.yard.serve_webhooks(Operator("forbidding", "", "", [], webhooks=[hook]))
    await story.edit(rest={"port": 8081, "image": "other"}, postgres={**GENERATED, "image": "postgresql:other"})
    for name in ("mr", "mr-postgres"):
        await story.says("Available", "unexpected reconcile error: Deployment mr", status="False")
        assert uid_of(await story.yard.until(builtin.Deployment, name)) in before
    forbidding = False
    for name in ("mr", "mr-postgres"):
        found = await story.yard.until(
            builtin.Deployment, name, lambda d: "other" in d["spec"]["template"]["spec"]["containers"][0]["image"]
        )
        assert uid_of(found) in before
