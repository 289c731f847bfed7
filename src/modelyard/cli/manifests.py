"""`modelyard manifests`: CRDs, least-privilege RBAC, Deployment, Services and webhook configurations as one YAML stream.

examples:
  modelyard manifests --image registry.example.com/modelyard:0.1.0 | kubectl apply --server-side -f -
  MLFLOW_URL=https://ml.example.com modelyard manifests --operators mlflow --namespace opendatahub
  modelyard manifests --set MLFLOW_METRICS=off                             the same for one setting, on the command line
  modelyard manifests --only crds | kubectl apply --server-side -f -       upgrade the definitions first
  modelyard manifests --only plane | kubectl delete -f -                   uninstall; resources and their data stay
Settings of the operators that are set in this environment or by --set go into the Deployment, and the role is made for them.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping

from modelyard.cli.installation import Choice, manifests
from modelyard.cli.output import print_json, yaml_text
from modelyard.cli.settings_flag import check_names, environment, settings_argument, variables
from modelyard.failure import Failed
from modelyard.operators.registry import BUILT, load, shared
from modelyard.runtime.declaring.operator import Operator


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--namespace", default="modelyard", help="where the plane runs (default: modelyard)")
    parser.add_argument("--image", default="modelyard:latest", help="the plane's image")
    parser.add_argument("--replicas", type=int, default=1, help="more than one: the others stand by (default: 1)")
    operators_argument(parser)
    settings_argument(parser)
    parser.add_argument(
        "--watch-namespace",
        metavar="NAMESPACE",
        help="act on this namespace only: a ClusterRole for what has no namespace, Roles for all else",
    )
    parser.add_argument(
        "--only",
        choices=["all", "crds", "rbac", "plane"],
        default="all",
        help="a part of it; plane: all but the definitions and the namespace (default: all)",
    )
    parser.add_argument("-o", "--output", choices=["yaml", "json"], default="yaml")


def operators_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--operators",
        metavar="NAMES",
        help=f"comma-separated, of: {', '.join(BUILT)}, and those of installed packages (default: all; ray only if it is named, or on a laptop)",
    )


def operator_names(args: argparse.Namespace) -> list[str] | None:
    return [name.strip() for name in args.operators.split(",") if name.strip()] if args.operators else None


def load_operators(names: list[str] | None, environ: Mapping[str, str] | None = None) -> list[Operator]:
    """The chosen operators with the settings of this process; a bad name or setting is said."""
    try:
        return load(names, os.environ if environ is None else environ)
    except ValueError as error:
        raise Failed(str(error)) from None


def with_shared(chosen: list[Operator], environ: Mapping[str, str] | None = None) -> list[Operator]:
    """The chosen operators, and what runs besides them."""
    try:
        return [*chosen, *shared(os.environ if environ is None else environ, chosen)]
    except ValueError as error:
        raise Failed(str(error)) from None


def run(args: argparse.Namespace) -> int:
    if args.replicas < 1:
        raise Failed(f"--replicas {args.replicas}: at least one is needed; to stop the plane scale its Deployment to 0")
    # As the process will see it: the role must fit the namespaces that the operators will act in.
    given = environment(args)
    environ = {**given, "POD_NAMESPACE": args.namespace}
    operators = with_shared(load_operators(operator_names(args), environ), environ)
    check_names(args, operators)
    names = variables(operators) - {"POD_NAMESPACE"}
    settings = {name: given[name] for name in names if name in given}
    made = manifests(operators, Choice(args.namespace, args.image, args.replicas, args.watch_namespace, settings))
    made = [obj for obj in made if _belongs(args.only, obj["kind"])]
    if _moves(args.image) and any(obj["kind"] == "Deployment" for obj in made):
        print(
            f"modelyard manifests: the image {args.image} may change under a running plane; "
            "name a digest or a fixed tag: --image REGISTRY/modelyard:TAG",
            file=sys.stderr,
        )
    if args.output == "json":
        print_json({"apiVersion": "v1", "kind": "List", "items": made})
    else:
        sys.stdout.write(yaml_text(*made))
    return 0


def _moves(image: str) -> bool:
    """Whether the name means another image tomorrow: no digest, and no tag but `latest`."""
    tag = image.rpartition("/")[2].partition(":")[2]
    return "@" not in image and tag in ("", "latest")


def _belongs(part: str, kind: str) -> bool:
    match part:
        case "crds":
            return kind == "CustomResourceDefinition"
        case "rbac":
            return kind in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
        case "plane":
            # What may be deleted without losing a user's data: with a definition, or the namespace, all in it would go.
            return kind not in ("CustomResourceDefinition", "Namespace")
    return True
