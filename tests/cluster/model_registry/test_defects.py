"""Defects of upstream, by their number in the specification's section 12, that only an API server can show to be gone."""

from __future__ import annotations

from modelyard.kube import builtin
from modelyard.kube.objects import uid_of
from modelyard.runtime.operator import Operator
from modelyard.runtime.webhooks import AdmissionRequest, Denied, Webhook
from tests.cluster.model_registry.scenarios.story import GENERATED, Story
from tests.yard import ApiYard


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
