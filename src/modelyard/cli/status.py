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

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text
from rich.tree import Tree

from modelyard.cli.connection import connection_arguments, with_client
from modelyard.cli.manifests import load_operators
from modelyard.cli.output import Failed, console, output_argument, print_json, show
from modelyard.cli.survey import Node, reason, survey
from modelyard.kube.client import Client
from modelyard.kube.errors import Unreachable
from modelyard.kube.kinds import Object

NOT_READY = 3
_EVENTS = 3
_REFRESH = 1.0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", nargs="?", metavar="KIND", help="a kind, its plural or short name (default: all)")
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="one resource of that kind")
    parser.add_argument("--watch", action="store_true", help="go on and show changes, until interrupted")
    connection_arguments(parser)
    output_argument(parser)


def run(args: argparse.Namespace) -> int:
    operators = load_operators(None)
    only = (args.kind, args.name) if args.kind else None

    async def look(client: Client) -> int:
        roots = await survey(client, operators, only)
        if only is not None and not roots:
            raise Failed(f"there is no {args.kind} {args.name}".rstrip())
        if args.watch:
            await _follow(client)
        if args.output == "json":
            print_json([as_data(root) for root in roots])
        else:
            show(page(roots))
        return 0 if all(root.ready is not False for root in roots) else NOT_READY

    async def _follow(client: Client) -> None:
        with Live(page(await survey(client, operators, only)), console=console(), auto_refresh=False) as live:
            while True:
                await asyncio.sleep(_REFRESH)
                try:
                    live.update(page(await survey(client, operators, only)), refresh=True)
                except Unreachable as error:
                    live.update(Text(f"{error}; trying again", style="red"), refresh=True)

    return with_client(args, look)


def page(roots: list[Node]) -> RenderableType:
    if not roots:
        return Text("there are no platform resources; see examples/ for some to apply")
    return Group(*(_resource(root) for root in roots))


def _resource(root: Node) -> RenderableType:
    where = f" in {root.key.namespace}" if root.key.namespace else ""
    tree = Tree(Text.assemble((root.title, "bold"), where, "  ", _mark(root)))
    sentence = reason(root)
    if sentence:
        tree.add(Text(f"why: {sentence}", style="yellow"))
    for condition in (root.object.get("status") or {}).get("conditions") or []:
        tree.add(_condition(condition))
    for child in root.children:
        _branch(tree, child)
    for event in root.events[-_EVENTS:]:
        style = "yellow" if event.get("type") == "Warning" else "dim"
        tree.add(Text(f"event {event.get('reason')}: {event.get('message')}", style=style))
    return tree


def _branch(tree: Tree, node: Node) -> None:
    below = tree.add(Text.assemble(node.title, "  ", _mark(node)))
    for child in node.children:
        _branch(below, child)


def _mark(node: Node) -> tuple[str, str]:
    style = {True: "green", False: "red", None: "dim"}[node.ready]
    return (node.state, style)


def _condition(condition: Object) -> Text:
    text = f"{condition['type']}={condition['status']}"
    details = ": ".join(part for part in (condition.get("reason"), condition.get("message")) if part)
    return Text(f"{text}  {details}".rstrip(), style="dim")


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
        "conditions": (node.object.get("status") or {}).get("conditions") or [],
        "events": [{k: e.get(k) for k in ("type", "reason", "message", "count")} for e in node.events[-_EVENTS:]],
        "children": [as_data(child) for child in node.children],
    }
