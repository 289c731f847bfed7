"""`modelyard run`: the controllers of the operators, against a kubeconfig or inside a cluster.

examples:
  modelyard run                                   with the current kubeconfig (or in a pod: its service account)
  modelyard run --operators mlflow --lease        one of several replicas
  modelyard run --namespace team-a                act on one namespace only
  modelyard run --set MLFLOW_METRICS=off          a setting of an operator
environment: the settings of the operators, see `modelyard dataflow` under Configuration; --set goes before it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from pathlib import Path

import msgspec

from modelyard.cli.connection import connection_arguments, with_client
from modelyard.cli.manifests import load_operators, operator_names, operators_argument, with_shared
from modelyard.cli.plane import Plane, PlaneOptions
from modelyard.cli.settings_flag import check_names, environment, settings_argument
from modelyard.failure import Failed
from modelyard.kube.client import Client
from modelyard.runtime.process.health import Listening
from modelyard.runtime.process.logs import configure

OLDEST, NEWEST = 29, 37
"""Minor versions of Kubernetes that the plane is made for."""


def arguments(parser: argparse.ArgumentParser) -> None:
    connection_arguments(parser)
    operators_argument(parser)
    settings_argument(parser)
    parser.add_argument("--namespace", help="act on this namespace only (default: all)")
    home = os.environ.get("POD_NAMESPACE") or "modelyard"
    parser.add_argument(
        "--home",
        default=home,
        help="namespace of the lease and the certificate (default: $POD_NAMESPACE, else modelyard)",
    )
    parser.add_argument("--lease", action="store_true", help="elect a leader; the others stand by")
    parser.add_argument(
        "--health-host", default="127.0.0.1", help="address of /healthz, /readyz and /metrics (default: 127.0.0.1)"
    )
    parser.add_argument("--health-port", type=int, default=8081, help="default: 8081; 0: a free one")
    parser.add_argument(
        "--metrics-port",
        type=int,
        help="serve /metrics here instead, on all addresses, over HTTPS, to those whom the API lets get that path",
    )
    parser.add_argument("--debug", action="store_true", help="also serve /debug/ there")
    parser.add_argument("--webhook-host", default="0.0.0.0", help="default: 0.0.0.0")
    parser.add_argument("--webhook-port", type=int, default=9443, help="default: 9443")
    parser.add_argument(
        "--certificates", type=Path, metavar="DIR", help="mounted tls.crt and tls.key (default: own, in a Secret)"
    )
    parser.add_argument("--log-format", choices=["auto", "json", "human"], default="auto")
    parser.add_argument("--log-level", default="INFO")


def run(args: argparse.Namespace) -> int:
    configure(json={"auto": None, "json": True, "human": False}[args.log_format], level=args.log_level)
    environ = environment(args)
    operators = with_shared(load_operators(operator_names(args), environ), environ)
    check_names(args, operators)
    options = PlaneOptions(
        home=args.home,
        watch_namespace=args.namespace,
        lease=args.lease,
        webhook_host=args.webhook_host,
        webhook_port=args.webhook_port,
        certificates=args.certificates,
        metrics_port=args.metrics_port,
        health=Listening(host=args.health_host, port=args.health_port, debug=args.debug),
    )

    async def work(client: Client) -> int:
        await check_version(client)
        async with Plane(client, operators, options):
            await stopped()
        return 0

    return with_client(args, work)


async def check_version(client: Client) -> None:
    """Refuses a server that is too old to be served rightly."""
    version = msgspec.json.decode(await client.request("GET", "/version"))
    digits = "".join(c for c in str(version.get("minor", "")) if c.isdigit())
    if digits and int(digits) < OLDEST:
        raise Failed(
            f"the cluster runs Kubernetes 1.{digits}; modelyard needs 1.{OLDEST} or newer (tested up to 1.{NEWEST}): upgrade the cluster"
        )


async def stopped() -> None:
    """Until SIGTERM or SIGINT."""
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    await over.wait()
