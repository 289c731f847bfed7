"""`modelyard serve`: one server of the platform, without Kubernetes.

examples:
  modelyard serve registry                                       a model registry at http://localhost:8080, in ./model-registry.db
  modelyard serve registry --port 9000 --database team.db        another port, another SQLite file
  modelyard serve registry --database postgresql://me@db/models  on PostgreSQL (needs modelyard[databases])
  modelyard serve registry-export http://localhost:8080 > all.jsonl
  modelyard serve registry-import http://localhost:9000 < all.jsonl
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys

from modelyard.failure import Failed
from modelyard.programs.database import Source, SourceError
from modelyard.programs.database.source import type_of
from modelyard.programs.registry.process import DEFAULT_FILE, Config, serve
from modelyard.programs.registry.transfer import TransferError, export_registry, import_registry
from modelyard.programs.web import Cors


def arguments(parser: argparse.ArgumentParser) -> None:
    servers = parser.add_subparsers(dest="server", metavar="SERVER", required=True, title="servers")
    registry = servers.add_parser("registry", help="the model registry's REST server")
    registry.add_argument("--host", default="localhost", help="address to listen on (default: localhost)")
    registry.add_argument("--port", type=int, default=8080, help="port to listen on (default: 8080)")
    registry.add_argument(
        "--database",
        default=DEFAULT_FILE,
        metavar="ADDRESS",
        help="an SQLite file, postgresql://user:password@host/database, or user:password@tcp(host:port)/database for "
        f"MySQL (default: {DEFAULT_FILE} in this directory)",
    )
    registry.add_argument("--cors-allowed-origins", default="", metavar="ORIGINS", help="comma list of origins, or *")
    for word, summary in (
        ("registry-export", "write everything that a registry holds to standard output, as JSON lines"),
        ("registry-import", "read JSON lines from standard input and create everything in a registry"),
    ):
        command = servers.add_parser(word, help=summary)
        command.add_argument("address", metavar="URL", help="address of the registry: http://localhost:8080")
        command.add_argument("--token", default="", help="bearer token, where a proxy asks for one")


def run(args: argparse.Namespace) -> int:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s", stream=sys.stderr)
    try:
        if args.server == "registry":
            source = Source(type_of(args.database), args.database)
            return asyncio.run(serve(Config(args.host, args.port, source, Cors.parsed(args.cors_allowed_origins))))
        if args.server == "registry-export":
            count = asyncio.run(export_registry(args.address, sys.stdout, token=args.token))
        else:
            count = asyncio.run(import_registry(args.address, sys.stdin, token=args.token))
    except (SourceError, TransferError) as error:
        raise Failed(str(error)) from None
    print(f"{count} objects", file=sys.stderr)
    return 0
