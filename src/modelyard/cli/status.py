"""`modelyard status`: the platform's resources with their conditions, children and last Events, and why one is not ready.

examples:
  modelyard status                       everything
  modelyard status mlflow mlflow         one resource
  modelyard status --watch               updated in place
  modelyard status -o json               for programs
exit code 3: something is not ready.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text
from rich.tree import Tree

from modelyard.cli.connection import connection_arguments, laptop_behind, with_client
from modelyard.cli.manifests import load_operators
from modelyard.cli.output import console, output_argument, print_json, show
from modelyard.cli.survey import Node, UnknownKind, View, reason, view
from modelyard.failure import Failed
from modelyard.kube.client import Client
from modelyard.kube.errors import Unreachable
from modelyard.kube.kinds import Object
from modelyard.kube.objects import status_of
from modelyard.operators.registry import available

NOT_READY = 3
_EVENTS = 3
_REFRESH = 1.0
_NOT_INSTALLED = (
    "the cluster serves none of the platform's kinds: install them as docs/tutorials/cluster.md says, "
    "or choose another cluster with --context, --kubeconfig or --dir"
)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", nargs="?", metavar="KIND", help="a kind, its plural or short name (default: all)")
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="one resource of that kind")
    parser.add_argument("--watch", action="store_true", help="go on and show changes, until interrupted")
    connection_arguments(parser)
    output_argument(parser)


def run(args: argparse.Namespace) -> int:
    operators = load_operators(list(available()))
    only = (args.kind, args.name) if args.kind else None
    laptop = laptop_behind(args)

    async def look(client: Client) -> View:
        return await view(client, operators, only, everywhere=laptop is not None)

    async def tell(client: Client) -> int:
        # On a kubeconfig that the laptop cluster wrote: what it says of its own parts comes first.
        broken = laptop.broken_parts() if laptop is not None else []
        try:
            seen = await look(client)
        except UnknownKind as problem:
            raise Failed(str(problem)) from None
        except Unreachable:
            if broken:
                raise Failed("; ".join(broken)) from None
            raise
        if not seen.served and not broken:
            raise Failed(_NOT_INSTALLED)
        if only is not None and not seen.roots:
            raise Failed("; ".join([f"there is no {args.kind} {args.name}".rstrip(), *broken]))
        if args.watch:
            await follow(client, seen)
        if args.output == "json":
            print_json([as_data(root) for root in (*seen.roots, *seen.strays)])
            for line in broken:
                print(f"modelyard status: {line}", file=sys.stderr)
        else:
            show(page(seen.roots, seen.strays, broken))
        return 0 if seen.ready and not broken else NOT_READY

    async def follow(client: Client, seen: View) -> None:
        parts = laptop.broken_parts if laptop is not None else list
        with Live(page(seen.roots, seen.strays, parts()), console=console(), auto_refresh=False) as live:
            while True:
                await asyncio.sleep(_REFRESH)
                try:
                    seen = await look(client)
                    live.update(page(seen.roots, seen.strays, parts()), refresh=True)
                except Unreachable as error:
                    live.update(Text(f"{error}; trying again", style="red"), refresh=True)

    return with_client(args, tell)


def page(roots: Sequence[Node], strays: Sequence[Node] = (), broken: Sequence[str] = ()) -> RenderableType:
    parts: list[RenderableType] = [Text(line, style="red") for line in broken]
    parts += [_resource(root) for root in roots]
    if not roots and not broken:
        parts.append(Text("there are no platform resources; see examples/ for some to apply"))
    if strays:
        parts += [Text("not part of a platform resource, and not ready:", style="bold")]
        parts += [_stray(stray) for stray in strays]
    return Group(*parts)


def _resource(root: Node) -> RenderableType:
    """What is said once is not said again: conditions and Events often repeat the reason."""
    where = f" in {root.key.namespace}" if root.key.namespace else ""
    tree = Tree(Text.assemble((root.title, "bold"), where, "  ", _mark(root)))
    sentence = reason(root)
    if sentence:
        tree.add(Text(f"why: {sentence}", style="yellow"))
    said = sentence
    for details, names in _conditions(root):
        message = details.partition(": ")[2]
        repeated = message != "" and message in said
        tree.add(Text(f"{names}  {'' if repeated else details}".rstrip(), style="dim"))
        said += f"\n{details}"
    for child in root.children:
        _branch(tree, child)
    for event in _fresh_events(root, said)[-_EVENTS:]:
        style = "yellow" if event.get("type") == "Warning" else "dim"
        tree.add(Text(f"event {event.get('reason')}: {event.get('message')}", style=style))
    return tree


def _stray(node: Node) -> RenderableType:
    tree = Tree(Text.assemble((node.title, "bold"), f" in {node.key.namespace}  ", _mark(node)))
    tree.add(Text(f"why: {reason(node) or node.state}", style="yellow"))
    return tree


def _conditions(root: Node) -> list[tuple[str, str]]:
    """Details (reason and message), and the conditions that give them."""
    by_details: dict[str, list[str]] = {}
    for each in status_of(root.object).get("conditions") or []:
        details = ": ".join(part for part in (each.get("reason"), each.get("message")) if part)
        by_details.setdefault(details, []).append(f"{each['type']}={each['status']}")
    return [(details, ", ".join(names)) for details, names in by_details.items()]


def _fresh_events(root: Node, said: str) -> list[Object]:
    """Each once (the last one counts), without those that say nothing new."""
    last: dict[tuple[object, object], Object] = {}
    for event in root.events:
        key = (event.get("reason"), event.get("message"))
        last.pop(key, None)
        last[key] = event
    return [event for event in last.values() if str(event.get("message")) not in said]


def _branch(tree: Tree, node: Node) -> None:
    below = tree.add(Text.assemble(node.title, "  ", _mark(node)))
    for child in node.children:
        _branch(below, child)


def _mark(node: Node) -> tuple[str, str]:
    style = {True: "green", False: "red", None: "dim"}[node.ready]
    return (node.state, style)


def as_data(node: Node) -> Object:
    """The same as the tree shows, for programs."""
    return {
        "kind": node.kind.kind,
        "apiVersion": node.kind.api_version,
        "namespace": node.key.namespace,
        "name": node.key.name,
        "state": node.state,
        "ready": node.ready,
        "why": reason(node) or node.why,
        "log": node.log,
        "conditions": (node.object.get("status") or {}).get("conditions") or [],
        "events": [{k: e.get(k) for k in ("type", "reason", "message", "count")} for e in node.events[-_EVENTS:]],
        "children": [as_data(child) for child in node.children],
    }
