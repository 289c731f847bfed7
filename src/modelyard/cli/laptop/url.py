"""`modelyard url`: a link that opens a service of the laptop cluster in a browser, already logged in. It works once.

examples:
  modelyard url                         the start page, which leads to everything that is served
  modelyard url mlflow                  MLflow, in the workspace default
  modelyard url mlflow --workspace team-a
  xdg-open "$(modelyard url mlflow)"    open it
"""

from __future__ import annotations

import argparse

from modelyard.cli.output import output_argument, print_json
from modelyard.kube.client import Client
from modelyard.local.laptop.layout import directory_argument, layout_of
from modelyard.local.laptop.places import DEFAULT_WORKSPACE, Place, base_url, find_published
from modelyard.local.laptop.session import gateway_url, login_link, with_laptop


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        default="",
        help="a route, or the Service that it leads to: mlflow (default: all)",
    )
    parser.add_argument("-n", "--namespace", default="", help="where it is, if the name is not enough")
    parser.add_argument(
        "--workspace", default=DEFAULT_WORKSPACE, help="MLflow: the workspace, which is a namespace (default: default)"
    )
    parser.add_argument("--plain", action="store_true", help="the address without a login")
    directory_argument(parser)
    output_argument(parser)


def run(args: argparse.Namespace) -> int:
    layout = layout_of(args)

    async def make(client: Client) -> str:
        if not args.name:
            return gateway_url(layout) + "/" if args.plain else await login_link(layout)
        found = await find_published(client, args.name, args.namespace)
        place = Place.of(found)
        if args.plain:
            return base_url(found, gateway_url(layout)) + place.path
        return await login_link(layout, found.source, place.page(args.workspace))

    link = with_laptop(layout, make)
    if args.output == "json":
        print_json({"url": link})
    else:
        print(link)
    return 0
