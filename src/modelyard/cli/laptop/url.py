"""`modelyard url`: a link that opens a service of the laptop cluster in a browser, already logged in. It works once.

examples:
  modelyard url mlflow                  print the link
  xdg-open "$(modelyard url mlflow)"    open it
"""

from __future__ import annotations

import argparse

from modelyard.cli.laptop.layout import directory_argument, layout_of
from modelyard.cli.laptop.places import find_place
from modelyard.cli.laptop.session import gateway_url, login_link, user_token, with_laptop
from modelyard.cli.output import output_argument, print_json
from modelyard.kube.client import Client


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a route, or the Service that it leads to: mlflow")
    parser.add_argument("-n", "--namespace", default="", help="where it is, if the name is not enough")
    parser.add_argument("--plain", action="store_true", help="the address without a login")
    directory_argument(parser)
    output_argument(parser)


def run(args: argparse.Namespace) -> int:
    layout = layout_of(args)

    async def make(client: Client) -> str:
        place = await find_place(client, args.name, args.namespace)
        if args.plain:
            return gateway_url(layout) + place.path
        return await login_link(layout, await user_token(client), place.path)

    link = with_laptop(layout, make)
    if args.output == "json":
        print_json({"url": link})
    else:
        print(link)
    return 0
