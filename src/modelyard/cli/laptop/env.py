"""`modelyard env`: what a client outside of the cluster needs to reach a service, as lines for a shell.

examples:
  eval "$(modelyard env mlflow)"                    then: python -c 'import mlflow; mlflow.log_metric("a", 1)'
  eval "$(modelyard env mlflow --workspace team-a)" in another namespace's workspace
  modelyard env modelregistry-sample                what to give to the `model-registry` client
  modelyard env mlflow -o json
The token is good for twelve hours, and for this service only.
"""

from __future__ import annotations

import argparse
import re
import shlex
from urllib.parse import urlsplit

from modelyard.cli.laptop.access import service_token
from modelyard.cli.output import output_argument, print_json
from modelyard.kube.client import Client
from modelyard.local.laptop.layout import Layout, directory_argument, layout_of
from modelyard.local.laptop.places import DEFAULT_WORKSPACE, Place, find_published
from modelyard.local.laptop.session import authority, gateway_url, with_laptop

TOKEN_SECONDS = 12 * 3600
_REGISTRY = "MODEL_REGISTRY_ADDRESS"
# The public client reads no variables for these.
_REGISTRY_CALL = (
    f'python: ModelRegistry(os.environ["{_REGISTRY}"], int(os.environ["MODEL_REGISTRY_PORT"]), author="me", '
    'user_token=os.environ["MODEL_REGISTRY_TOKEN"], custom_ca=os.environ["MODEL_REGISTRY_CA"])'
)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a route, or the Service that it leads to: mlflow")
    parser.add_argument("-n", "--namespace", default="", help="where it is, if the name is not enough")
    parser.add_argument(
        "--workspace", default=DEFAULT_WORKSPACE, help="MLflow: the workspace, which is a namespace (default: default)"
    )
    directory_argument(parser)
    output_argument(parser)


def run(args: argparse.Namespace) -> int:
    layout = layout_of(args)

    async def make(client: Client) -> dict[str, str]:
        found = await find_published(client, args.name, args.namespace)
        token = (await service_token(client, found, seconds=TOKEN_SECONDS)).text
        return variables(Place.of(found), gateway_url(layout), token, write_authority(layout), args.workspace)

    made = with_laptop(layout, make)
    if args.output == "json":
        print_json(made)
    else:
        for name, value in made.items():
            print(f"export {name}={shlex.quote(value)}")
        if _REGISTRY in made:
            print(f"# {_REGISTRY_CALL}")
    return 0


def variables(place: Place, gateway: str, token: str, authority_file: str, workspace: str) -> dict[str, str]:
    """Under the names that the service's own client reads; a service we do not know gets names made from its own."""
    url = gateway + place.path.rstrip("/")
    if place.owner == "MLflow":
        return {
            "MLFLOW_TRACKING_URI": url,
            "MLFLOW_TRACKING_TOKEN": token,
            "MLFLOW_TRACKING_SERVER_CERT_PATH": authority_file,
            "MLFLOW_WORKSPACE": workspace,
        }
    if place.owner == "ModelRegistry":
        return {
            _REGISTRY: url,
            "MODEL_REGISTRY_PORT": str(urlsplit(gateway).port or 443),
            "MODEL_REGISTRY_TOKEN": token,
            "MODEL_REGISTRY_CA": authority_file,
        }
    prefix = re.sub(r"[^A-Z0-9]", "_", place.name.upper())
    return {f"{prefix}_URL": url, f"{prefix}_TOKEN": token, f"{prefix}_CA": authority_file}


def write_authority(layout: Layout) -> str:
    """The CA as a file: that is how clients take it."""
    path = layout.directory / "ca.crt"
    text = authority(layout)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return str(path)
