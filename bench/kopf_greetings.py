"""The controller of bench-runtime on kopf: the same children and status, written with our own client. `kopf run -m bench.kopf_greetings`."""

from __future__ import annotations

import os
from typing import Any

import kopf

from bench.greetings import KIND, MANAGER, kinds_and_objects, status
from greetings_operator.api import Greeting
from modelyard.kube.config import connect


@kopf.on.startup()
async def start(memo: kopf.Memo, settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = False
    settings.batching.worker_limit = None
    memo.client = connect(os.environ["KUBECONFIG"])


@kopf.on.cleanup()
async def stop(memo: kopf.Memo, **_: Any) -> None:
    await memo.client.close()


@kopf.on.create(KIND.group, KIND.version, KIND.plural)
@kopf.on.resume(KIND.group, KIND.version, KIND.plural)
@kopf.on.update(KIND.group, KIND.version, KIND.plural)
async def reconcile(body: kopf.Body, patch: kopf.Patch, memo: kopf.Memo, **_: Any) -> None:
    resource = Greeting.parse(dict(body))
    for kind, child in kinds_and_objects(resource):
        kopf.append_owner_reference(child, body)
        await memo.client.apply(kind, child, field_manager=MANAGER, force=True)
    patch.status.update(status(resource).to_dict())
