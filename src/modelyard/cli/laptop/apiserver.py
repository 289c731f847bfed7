"""`modelyard apiserver`: the Kubernetes API server alone, without controllers and without pods.

examples:
  modelyard apiserver --dir ./api                 then: kubectl --kubeconfig ./api/kubeconfig get ns
"""

from __future__ import annotations

import argparse
from pathlib import Path

from modelyard.cli.packages import require_rules
from modelyard.local.apiserver.process import main


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dir", type=Path, required=True, metavar="DIR", help="where objects and the kubeconfig are kept"
    )
    parser.add_argument(
        "--port", type=int, default=0, help="port on loopback (default: the one used last, or a free one)"
    )


def run(args: argparse.Namespace) -> int:
    require_rules()
    return main(["--dir", str(args.dir), "--port", str(args.port)])
