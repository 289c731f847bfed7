"""`modelyard serve`: one server of the platform, without Kubernetes.

examples:
  modelyard serve registry                                       a model registry at http://localhost:8080, in ./model-registry.db
  modelyard serve registry --port 9000 --database team.db        another port, another SQLite file
  modelyard serve registry --database postgresql://me@db/models  on PostgreSQL (needs modelyard[databases])
  modelyard serve registry-export http://localhost:8080 > all.jsonl
  modelyard serve registry-import http://localhost:9000 < all.jsonl
  modelyard serve catalog                                        the lists of ./sources.yaml, or samples, at http://localhost:8080
  modelyard serve catalog --sources team.yaml --performance-metrics measured
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from modelyard.failure import Failed
from modelyard.programs.catalog import process as catalog
from modelyard.programs.database import Source, SourceError
from modelyard.programs.database.source import type_of
from modelyard.programs.registry.process import DEFAULT_FILE, Config, serve
from modelyard.programs.registry.transfer import TransferError, export_registry, import_registry
from modelyard.programs.web import Cors

_SOURCES = Path("sources.yaml")


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
    _catalog_arguments(servers.add_parser("catalog", help="the model catalog's server"))
    for word, summary in (
        ("registry-export", "write everything that a registry holds to standard output, as JSON lines"),
        ("registry-import", "read JSON lines from standard input and create everything in a registry"),
    ):
        command = servers.add_parser(word, help=summary)
        command.add_argument("address", metavar="URL", help="address of the registry: http://localhost:8080")
        command.add_argument("--token", default="", help="bearer token, where a proxy asks for one")


def _catalog_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="localhost", help="address to listen on (default: localhost)")
    parser.add_argument("--port", type=int, default=8080, help="port to listen on (default: 8080)")
    parser.add_argument(
        "--sources",
        action="append",
        type=Path,
        metavar="FILE",
        help="a file with sources; may be repeated, later ones go first (default: sources.yaml in this directory, else samples)",
    )
    parser.add_argument(
        "--performance-metrics",
        action="append",
        type=Path,
        metavar="DIRECTORY",
        help="a directory with measurements; may be repeated",
    )
    parser.add_argument(
        "--database",
        default=catalog.DEFAULT_FILE,
        metavar="ADDRESS",
        help="where lists are kept for a start without files or network: an SQLite file or a postgresql:// address "
        f"(default: {catalog.DEFAULT_FILE} in this directory)",
    )
    parser.add_argument("--cors-allowed-origins", default="", metavar="ORIGINS", help="comma list of origins, or *")


def _catalog_config(args: argparse.Namespace) -> catalog.Config:
    paths, measured = args.sources, args.performance_metrics or []
    if paths is None and not _SOURCES.exists():
        print(f"there is no {_SOURCES} here: samples are served", file=sys.stderr)
        paths, measured = [catalog.SAMPLES / _SOURCES], [*measured, catalog.SAMPLES / "benchmarks"]
    return catalog.Config(
        args.host,
        args.port,
        paths or [_SOURCES],
        catalog.database_of(args.database, {}),
        measured,
        Cors.parsed(args.cors_allowed_origins),
    )


def run(args: argparse.Namespace) -> int:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s", stream=sys.stderr)
    try:
        if args.server == "registry":
            source = Source(type_of(args.database), args.database)
            return asyncio.run(serve(Config(args.host, args.port, source, Cors.parsed(args.cors_allowed_origins))))
        if args.server == "catalog":
            return asyncio.run(catalog.serve(_catalog_config(args)))
        if args.server == "registry-export":
            count = asyncio.run(export_registry(args.address, sys.stdout, token=args.token))
        else:
            count = asyncio.run(import_registry(args.address, sys.stdin, token=args.token))
    except (SourceError, TransferError) as error:
        raise Failed(str(error)) from None
    print(f"{count} objects", file=sys.stderr)
    return 0
