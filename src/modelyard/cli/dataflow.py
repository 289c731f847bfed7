"""`modelyard dataflow`: the pages of the operators, from their declarations.

examples:
  modelyard dataflow                            all operators, as Markdown
  modelyard dataflow mlflow --format mermaid    one diagram
  modelyard dataflow --format json | jq '.[].crds'
"""

from __future__ import annotations

import argparse
import sys

from modelyard.cli.output import print_json
from modelyard.cli.pages.dataflow import markdown, mermaid
from modelyard.cli.pages.flow import flow_of
from modelyard.failure import Failed
from modelyard.operators.registry import available, load, shared


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("operator", nargs="?", metavar="OPERATOR", help="one operator (default: all)")
    parser.add_argument(
        "--format", choices=["markdown", "mermaid", "json"], default="markdown", help="default: markdown"
    )


def run(args: argparse.Namespace) -> int:
    try:
        # The page shows what the code declares, not what this machine's environment sets.
        everything = load(available(), {})
        common = [operator for operator in shared({}, everything) if args.operator in (None, operator.name)]
        named = common and args.operator
        operators = [*([] if named else load([args.operator], {}) if args.operator else everything), *common]
    except ValueError as error:
        raise Failed(str(error)) from None
    flows = [flow_of(operator) for operator in operators]
    if args.format == "json":
        print_json(flows)
    else:
        render = markdown if args.format == "markdown" else mermaid
        sys.stdout.write("\n".join(render(flow) for flow in flows))
    return 0
