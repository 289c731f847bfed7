"""Calls the webhooks that a request concerns: mutating ones one after the other, validating ones all at once."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence

from modelyard.kube.kinds import Object
from modelyard.kube.patches import PatchError, json_patch
from modelyard.local.apiserver.admission.calls import WebhookClient
from modelyard.local.apiserver.admission.configurations import Invocation, Webhook, Webhooks
from modelyard.local.apiserver.admission.reviews import Answer, BadAnswer, Unreadable, denial, read_answer, review
from modelyard.local.apiserver.crds.conversion import WebhookFailure
from modelyard.local.apiserver.requests.hooks import Admission
from modelyard.local.apiserver.requests.problems import Problem, bad_request, forbidden, go_quote, internal_error
from modelyard.local.apiserver.served.resources import ServedResource


class CallFailed(Exception):
    """The webhook could not be asked; its failure policy decides what that means."""


class WebhookAdmission:
    def __init__(self, webhooks: Webhooks, client: WebhookClient) -> None:
        self._webhooks = webhooks
        self._client = client

    def concerns(self, admission: Admission) -> bool:
        return self._webhooks.concern(admission)

    # Mutating.

    async def mutate(
        self, admission: Admission, obj: Object | None, old: Object | None, rounds: Rounds
    ) -> Object | None:
        """One round of calls. `rounds` remembers what a second round has to call again."""
        for webhook in self._webhooks.all(mutating=True):
            if not rounds.wants(webhook):
                continue
            invocation = await self._wanted(webhook, admission, obj, old)
            if invocation is None:
                continue
            try:
                changed = await self._call_mutating(invocation, admission, obj, old)
            except CallFailed as failure:
                if webhook.ignores_failures:
                    changed = None
                else:
                    raise internal_error(str(failure)) from None
            if changed is not None:
                obj = changed
                rounds.changed()
            rounds.called(webhook)
        return obj

    async def _call_mutating(
        self, invocation: Invocation, admission: Admission, obj: Object | None, old: Object | None
    ) -> Object | None:
        """The changed object; None where nothing changed."""
        name = invocation.webhook.name
        answer = await self._ask(invocation, admission, obj, old)
        if not answer.allowed:
            raise denial(name, answer.result)
        if not answer.patch:
            return None
        if obj is None:
            why = "attempted to modify the object, which is not supported for this operation"
            raise internal_error(f"admission webhook {go_quote(name)} {why}")
        before = await _converted(obj, admission.resource, invocation.resource)
        try:
            after = json_patch(copy.deepcopy(before), list(answer.patch))
        except PatchError as error:
            raise internal_error(str(error)) from None
        if not isinstance(after, dict):
            raise internal_error(f"the patch of webhook {go_quote(name)} leaves no object")
        if after == before:
            return None
        changed = await _converted(after, invocation.resource, admission.resource)
        if admission.kind is None:
            admission.resource.strategy.default(changed)
        return changed

    # Validating.

    async def validate(self, admission: Admission, obj: Object | None, old: Object | None) -> None:
        wanted = [
            invocation
            for webhook in self._webhooks.all(mutating=False)
            if (invocation := await self._wanted(webhook, admission, obj, old)) is not None
        ]
        if not wanted:
            return
        answers = await asyncio.gather(*(self._call_validating(each, admission, obj, old) for each in wanted))
        for problem in answers:
            if problem is not None:
                raise problem

    async def _call_validating(
        self, invocation: Invocation, admission: Admission, obj: Object | None, old: Object | None
    ) -> Problem | None:
        try:
            answer = await self._ask(invocation, admission, obj, old)
        except CallFailed as failure:
            return None if invocation.webhook.ignores_failures else internal_error(str(failure))
        except Problem as problem:
            return problem
        return None if answer.allowed else denial(invocation.webhook.name, answer.result)

    # Both.

    async def _wanted(
        self, webhook: Webhook, admission: Admission, obj: Object | None, old: Object | None
    ) -> Invocation | None:
        invocation = self._webhooks.invocation(webhook, admission, obj, old)
        conditions = webhook.config.get("matchConditions") or ()
        if invocation is None or not conditions:
            return invocation
        # CEL is slow to import, and few webhooks have conditions.
        from modelyard.local.apiserver.cel.conditions import ConditionError, conditions_match

        shown, shown_old = await self._versions(invocation, admission, obj, old)
        question = review(invocation, admission, shown, shown_old)
        request = {name: value for name, value in question["request"].items() if name not in ("object", "oldObject")}
        try:
            return invocation if conditions_match(conditions, request, shown, shown_old) else None
        except ConditionError as error:
            if webhook.ignores_failures:
                return None
            raise forbidden(admission.resource.kind, admission.name, str(error)) from None

    async def _ask(
        self, invocation: Invocation, admission: Admission, obj: Object | None, old: Object | None
    ) -> Answer:
        webhook = invocation.webhook
        if admission.dry_run and not webhook.quiet_on_dry_run:
            raise bad_request(f"admission webhook {go_quote(webhook.name)} does not support dry run")
        shown, shown_old = await self._versions(invocation, admission, obj, old)
        question = review(invocation, admission, shown, shown_old)
        failed = f"failed calling webhook {go_quote(webhook.name)}"
        try:
            raw = await self._client.call(webhook.config.get("clientConfig") or {}, question, webhook.seconds)
        except WebhookFailure as failure:
            raise CallFailed(f"{failed}: failed to call webhook: {failure}") from None
        try:
            answer = read_answer(question, raw, mutating=webhook.mutating)
        except Unreadable as bad:
            raise CallFailed(f"{failed}: failed to call webhook: {bad}") from None
        except BadAnswer as bad:
            raise CallFailed(f"{failed}: received invalid webhook response: {bad}") from None
        admission.warnings += answer.warnings
        return answer

    @staticmethod
    async def _versions(
        invocation: Invocation, admission: Admission, obj: Object | None, old: Object | None
    ) -> tuple[Object | None, Object | None]:
        resource = admission.resource
        return (
            await _converted(obj, resource, invocation.resource) if obj is not None else None,
            await _converted(old, resource, invocation.resource) if old is not None else None,
        )


class Rounds:
    """Which webhooks a second round has to call again: those that asked for it and ran before a later change."""

    def __init__(self) -> None:
        self.again = False
        self._second = False
        self._ran: set[tuple[str, int]] = set()
        self._due: set[tuple[str, int]] = set()

    def wants(self, webhook: Webhook) -> bool:
        return not self._second or webhook.key in self._due

    def called(self, webhook: Webhook) -> None:
        if webhook.reinvoked:
            self._ran.add(webhook.key)

    def changed(self) -> None:
        self._due |= self._ran
        self._ran.clear()
        self.again = True

    def second(self, *, others_changed: bool) -> None:
        """Begins the second round. `others_changed`: the server's own plugins changed the object in between."""
        if others_changed:
            self._due |= self._ran
        self._second = True


async def _converted(obj: Object, source: ServedResource, target: ServedResource) -> Object:
    foreign = obj.get("kind") not in (None, source.kind.kind)
    if foreign or source is target or source.kind.api_version == target.kind.api_version:
        return obj
    convert = target.convert or source.convert
    if convert is None:
        return {**obj, "apiVersion": target.kind.api_version}
    found: Sequence[Object] = await convert([obj], target.kind.api_version)
    return found[0]
