"""`modelyard plan`: what the controllers would do for custom resources, before it happens. Nothing is changed.

examples:
  modelyard plan -f mlflow.yaml                        on the current cluster: created, changed (field by field), deleted
  modelyard plan -f mlflow.yaml --offline              without a cluster, up to the point where everything is ready
  modelyard plan -f mlflow.yaml --offline -o yaml      the children themselves, to keep in a GitOps repository
  modelyard plan -f new.yaml --exit-code               exit code 3 if there would be changes
Other objects in the files (Secrets, ConfigMaps) are taken as given with --offline; on a cluster only what is there counts.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from modelyard.cli.connection import connection_arguments, plane_settings, with_client
from modelyard.cli.files import read_all
from modelyard.cli.manifests import load_operators, operator_names, operators_argument, with_shared
from modelyard.cli.output import output_argument, print_json, show, yaml_text
from modelyard.cli.refusals import no_namespace, refusal
from modelyard.cli.settings_flag import check_names, chosen_settings, environment, settings_argument
from modelyard.failure import Failed
from modelyard.kube.builtin import Namespace
from modelyard.kube.client import Client
from modelyard.kube.errors import ApiError
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import key_of
from modelyard.kube.openshift import PLATFORMS
from modelyard.operators.registry import available
from modelyard.runtime.acting.plan import Action, Change, FieldChange, Plan, plan
from modelyard.runtime.declaring.controller import Controller
from modelyard.runtime.declaring.operator import Operator

WOULD_CHANGE = 3
_MARKS = {"create": ("+", "green"), "change": ("~", "yellow"), "delete": ("-", "red"), "release": ("-", "red")}
_VERBS: dict[Action, str] = {"create": "create", "change": "change", "delete": "delete", "release": "give back"}
_SHORT = 100


@dataclass(frozen=True)
class Asked:
    """A custom resource of the files, in the version that its controller reads."""

    kind: Kind
    resource: Object
    controller: Controller | None
    """None: such a kind is only configuration, nobody acts on it."""
    defined: bool = True
    """False: others define the kind, and it may be missing on a cluster."""

    @property
    def title(self) -> str:
        return f"{self.kind.kind} {key_of(self.resource)}"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-f", "--file", nargs="+", required=True, metavar="FILE", help="YAML files or folders; - is standard input"
    )
    parser.add_argument("--offline", action="store_true", help="on an API server of its own instead of a cluster")
    parser.add_argument(
        "--platform",
        choices=PLATFORMS,
        default="kubernetes",
        help="with --offline: what is planned for",
    )
    operators_argument(parser)
    settings_argument(parser)
    parser.add_argument("--exit-code", action="store_true", help="exit with 3 if there would be changes")
    connection_arguments(parser)
    output_argument(parser, "yaml")


def run(args: argparse.Namespace) -> int:
    objects = read_all(args.file)
    asked, plans, problems = (
        _offline(args, objects) if args.offline else with_client(args, lambda c: _on_cluster(c, args, objects))
    )
    present(asked, plans, args.output, offline=args.offline)
    if problems:
        raise Failed("; ".join(problems))
    if any(plan.failures for plan in plans):
        return 1
    return WOULD_CHANGE if args.exit_code and any(not p.is_empty for p in plans) else 0


def _offline(args: argparse.Namespace, objects: Sequence[Object]) -> tuple[list[Asked], list[Plan], list[str]]:
    # Only here: the API server needs packages that a plan on a cluster does not.
    from modelyard.cli.simulation import simulate

    environ = environment(args)
    operators = load_operators(operator_names(args) or list(available()), environ)
    together = with_shared(operators, environ)
    check_names(args, together)
    asked, others = sort_out(operators, objects)
    resources = [(each.kind, each.resource) for each in asked]
    try:
        return (
            asked,
            asyncio.run(simulate(together, resources, others, args.platform, _note_left_out)),
            [],
        )
    except ApiError as error:
        raise Failed(f"it would be refused: {refusal(error)}") from None
    except TimeoutError:
        raise Failed(
            "the controllers do not come to rest on this; that is a fault of theirs, please report it"
        ) from None


async def _on_cluster(
    client: Client, args: argparse.Namespace, objects: Sequence[Object]
) -> tuple[list[Asked], list[Plan], list[str]]:
    environ = {**await plane_settings(client, args), **chosen_settings(args)}
    operators = load_operators(operator_names(args) or list(available()), environ)
    check_names(args, with_shared(operators, environ))
    asked, others = sort_out(operators, objects)
    served = {(kind.api_version, kind.kind) for kind in await client.discover()}
    for obj in others:
        if (obj["apiVersion"], obj["kind"]) not in served:
            _note_left_out(obj)
    plans = await plan_all(client, asked)
    return asked, plans, await missing_namespaces(client, asked, plans)


def _note_left_out(obj: Object) -> None:
    said = f"{obj['kind']} {obj['metadata']['name']} is left out: nothing serves {obj['apiVersion']} {obj['kind']}"
    print(f"modelyard plan: {said}", file=sys.stderr)


async def missing_namespaces(client: Client, asked: Sequence[Asked], plans: Sequence[Plan]) -> list[str]:
    """What the API would refuse when it really is told: the pass itself writes nothing, and so does not notice."""
    users: dict[str, str] = {}
    for each, made in zip(asked, plans, strict=True):
        users.setdefault(key_of(each.resource).namespace, each.title)
        for change in made.of("create"):
            users.setdefault(change.key.namespace, f"{change.kind.kind} {change.key}")
    return [
        f"{title} would be refused: {no_namespace(name)}"
        for name, title in users.items()
        if name and await _is_missing(client, name)
    ]


async def _is_missing(client: Client, namespace: str) -> bool:
    try:
        return await client.find(Namespace, "", namespace) is None
    except ApiError:
        return False  # Not everybody may look at namespaces.


def sort_out(operators: Sequence[Operator], objects: Sequence[Object]) -> tuple[list[Asked], list[Object]]:
    """The resources that one of the operators acts on, and everything else."""
    definitions = {
        (f"{d.group}/{version.name}", d.kind_name): (operator, d)
        for operator in operators
        for d in operator.definitions
        for version in d.versions
    }
    foreign = {
        (kind.api_version, kind.kind): (kind, controller)
        for operator in operators
        for controller in operator.controllers
        for kind in controller.foreign_kinds
    }
    asked, others = [], []
    for obj in objects:
        named = (obj["apiVersion"], obj["kind"])
        if named in foreign and named not in definitions:
            kind, controller = foreign[named]
            asked.append(Asked(kind, _placed(obj, namespaced=kind.namespaced), controller, defined=False))
            continue
        found = definitions.get((obj["apiVersion"], obj["kind"]))
        if found is None and (close := _close(obj, definitions)):
            raise Failed(f"{obj['kind']} {obj['metadata']['name']}: {obj['apiVersion']} has no such kind{close}")
        if found is None:
            others.append(obj)
            continue
        operator, definition = found
        obj = _placed(obj, namespaced=definition.namespaced)
        conversion = next((c for c in operator.conversions if c.definition == definition), None)
        if obj["apiVersion"] != definition.kind.api_version and conversion is not None:
            obj = conversion.handler(obj, definition.kind.api_version)
        obj = obj | {"apiVersion": definition.kind.api_version}
        acting = next((c for c in operator.controllers if definition.kind in c.kinds), None)
        asked.append(Asked(definition.kind, obj, acting))
    if not asked:
        kinds = ", ".join(sorted({name for _, name in (*definitions, *foreign)}))
        held = ", ".join(f"{obj['kind']} {obj['metadata']['name']}" for obj in others[:5]) or "nothing"
        names = ", ".join(o.name for o in operators)
        raise Failed(f"the files hold no custom resource of {names}; those are: {kinds}. The files hold: {held}")
    return asked, others


def _placed(obj: Object, *, namespaced: bool) -> Object:
    """In the namespace that kubectl would take."""
    if not namespaced or obj["metadata"].get("namespace"):
        return obj
    return obj | {"metadata": {**obj["metadata"], "namespace": "default"}}


def _close(obj: Object, known: Iterable[tuple[str, str]]) -> str:
    """What was probably meant: a kind of the same group that is spelled like this, or has another version."""
    group = str(obj["apiVersion"]).partition("/")[0]
    by_kind = {
        kind.lower(): f"{version} {kind}"
        for version, kind in sorted(known, key=lambda each: each[0] == obj["apiVersion"])
        if version.partition("/")[0] == group
    }
    close = get_close_matches(str(obj["kind"]).lower(), by_kind, n=1)
    return f" (did you mean {by_kind[close[0]]}?)" if close else ""


async def plan_all(client: Client, asked: Sequence[Asked]) -> list[Plan]:
    served = await client.discover()
    plans = []
    for each in asked:
        if each.kind not in served:
            remedy = (
                "install the definitions with `modelyard manifests --only crds | kubectl apply --server-side -f -`"
                if each.defined
                else "install the software that defines it"
            )
            raise Failed(
                f"the cluster does not serve {each.kind.kind} ({each.kind.api_version}): {remedy}, or plan with --offline"
            )
        try:
            plans.append(await plan(client, each.controller, each.resource) if each.controller else Plan())
        except ApiError as error:
            raise Failed(f"{each.title} would be refused: {refusal(error)}") from None
        except (TimeoutError, ConnectionError) as error:
            raise Failed(str(error)) from None
    return plans


def present(asked: Sequence[Asked], plans: Sequence[Plan], output: str, *, offline: bool) -> None:
    if output == "json":
        print_json([as_data(a, p) for a, p in zip(asked, plans, strict=True)])
    elif output == "yaml":
        sys.stdout.write(as_manifests(plans))
    else:
        show(Group(*(page(a, p, offline=offline) for a, p in zip(asked, plans, strict=True))))


def page(asked: Asked, plan: Plan, *, offline: bool = False) -> RenderableType:
    """What a person reads."""
    lines: list[Text] = [Text(asked.title, style="bold")]
    if asked.controller is None:
        lines.append(Text("  is only read by others; no controller acts on it"))
    for change in plan.changes:
        mark, style = _MARKS[change.action]
        lines.append(Text(f"  {mark} {change.kind.kind} {change.key}", style=style))
        if change.action == "change":
            lines += [Text(f"      {field_line(each)}") for each in change.fields]
    if plan.hold is not None:
        lines.append(Text(f"  waits: {plan.hold.reason}: {plan.hold.message}", style="yellow"))
    lines += [Text(f"  {f.kind.kind} {f.key}: {f.reason}: {f.message}", style="red") for f in plan.failures]
    if plan.waiting:
        lines.append(Text("  more follows once this is in place", style="dim"))
    conditions = plan.resulting.get("conditions") or []
    if conditions:
        lines.append(Text(f"  status {'once everything is ready' if offline else 'after the first pass'}"))
        lines += [Text(f"      {_condition(each)}", style="dim") for each in conditions]
    lines.append(Text(f"  {summary(plan)}"))
    return Group(*lines)


def summary(plan: Plan) -> str:
    counts = {verb: len(plan.of(action)) for action, verb in _VERBS.items()}
    said = ", ".join(f"{count} to {verb}" for verb, count in counts.items() if count)
    return said or "nothing to do"


def field_line(change: FieldChange) -> str:
    return f"{change.path}: {_value(change.before)} -> {_value(change.after)}"


def _value(value: object) -> str:
    if value is None:
        return "(absent)"
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _SHORT else text[: _SHORT - 1] + "…"


def _condition(condition: Object) -> str:
    details = ": ".join(part for part in (condition.get("reason"), condition.get("message")) if part)
    return f"{condition['type']}={condition['status']}  {details}".rstrip()


def as_data(asked: Asked, plan: Plan) -> Object:
    """The same for programs."""
    return {
        "kind": asked.kind.kind,
        "apiVersion": asked.kind.api_version,
        "namespace": key_of(asked.resource).namespace,
        "name": key_of(asked.resource).name,
        "changes": [_change_data(change) for change in plan.changes],
        "status": plan.resulting,
        "waiting": plan.waiting,
        "hold": {"reason": plan.hold.reason, "message": plan.hold.message} if plan.hold else None,
        "failures": [
            {
                "kind": f.kind.kind,
                "namespace": f.key.namespace,
                "name": f.key.name,
                "reason": f.reason,
                "message": f.message,
            }
            for f in plan.failures
        ],
    }


def _change_data(change: Change) -> Object:
    return {
        "action": change.action,
        "kind": change.kind.kind,
        "apiVersion": change.kind.api_version,
        "namespace": change.key.namespace,
        "name": change.key.name,
        "fields": [{"path": f.path, "before": f.before, "after": f.after} for f in change.fields],
    }


def as_manifests(plans: Sequence[Plan]) -> str:
    """The children as `kubectl apply` takes them: what we would send, without ties to a resource that is not there yet."""
    parts = []
    for each in plans:
        for change in each.changes:
            if change.sent is None:
                continue
            if change.kind.kind == "Secret" and not change.kind.group:
                parts.append(f"# Secret {change.key} is left out: its content is generated on the cluster\n")
                continue
            parts.append(yaml_text(_portable(change.sent)))
    return "".join(parts)


def _portable(obj: Object) -> Object:
    metadata = {
        name: value for name, value in obj["metadata"].items() if name not in ("ownerReferences", "resourceVersion")
    }
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"]} | obj | {"metadata": metadata}
