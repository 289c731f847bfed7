"""The `modelyard` command: one subcommand a module, imported only when it is asked for."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import NoReturn

from modelyard.cli.packages import LAPTOP_PACKAGES, lacking
from modelyard.failure import Failed

EXIT_CODES = """exit codes:
  0  done
  1  it did not work: the message says what and what to do
  2  the command line was wrong
  3  not everything is ready (status), or there would be changes (plan --exit-code)
"""


@dataclass(frozen=True)
class Command:
    """`module` has `arguments(parser)` and `run(args) -> int`."""

    name: str
    module: str
    summary: str


COMMANDS = (
    Command("up", "modelyard.cli.laptop.up", "start the laptop cluster, with the platform's controllers"),
    Command("down", "modelyard.cli.laptop.down", "stop the laptop cluster; its state stays"),
    Command("list", "modelyard.cli.laptop.listing", "show the laptop clusters on this machine"),
    Command("reset", "modelyard.cli.laptop.reset", "delete the laptop cluster's state"),
    Command("export", "modelyard.cli.laptop.export", "write the whole laptop cluster into one file"),
    Command("import", "modelyard.cli.laptop.imports", "make a laptop cluster from an exported file"),
    Command("logs", "modelyard.cli.laptop.logs", "show the logs of the laptop cluster's parts"),
    Command("url", "modelyard.cli.laptop.url", "print a link that opens a service in a browser"),
    Command("env", "modelyard.cli.laptop.env", "print what a client needs to reach a service, to paste into a shell"),
    Command("images", "modelyard.cli.laptop.images", "list the programs that pods can run here; prune built ones"),
    Command("apiserver", "modelyard.cli.laptop.apiserver", "run the Kubernetes API server alone"),
    Command("serve", "modelyard.cli.serve", "run one of the platform's servers alone, without Kubernetes"),
    Command("run", "modelyard.cli.run", "run the controllers on a cluster"),
    Command("manifests", "modelyard.cli.manifests", "print everything that an installation on a cluster needs"),
    Command("plan", "modelyard.cli.plan", "show what the controllers would do for custom resources"),
    Command(
        "status", "modelyard.cli.status", "show the platform's resources, their children and why something is not ready"
    ),
    Command("dataflow", "modelyard.cli.dataflow", "show what each operator watches, creates, serves and defines"),
    Command("examples", "modelyard.cli.examples", "list, print or write the YAML examples that come with Modelyard"),
    Command("completion", "modelyard.cli.completion", "print the completion of commands and options for a shell"),
    Command("docs", "modelyard.cli.docs", "write or check the generated pages of docs/ (in a source checkout)"),
)


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    name = words[0] if words else ""
    try:
        parser = _parser(name)
        args = parser.parse_args(words)
        if not args.command:
            parser.print_help()
            return 2
        command = next(c for c in COMMANDS if c.name == args.command)
        return int(import_module(command.module).run(args))
    except Failed as problem:
        print(f"modelyard {name}: {problem}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in LAPTOP_PACKAGES:
            raise
        print(f"modelyard {name}: {lacking([module])}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 1
    except KeyboardInterrupt:
        return 130


def _parser(wanted: str) -> argparse.ArgumentParser:
    """Only the wanted command's module is imported: `modelyard --help` stays quick."""
    parser = argparse.ArgumentParser(
        prog="modelyard",
        description="An ML platform's control plane for Kubernetes: same YAML, laptop to cluster.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_ShowVersion, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for command in COMMANDS:
        if command.name == wanted:
            _describe(commands.add_parser(command.name, help=command.summary), command)
        else:
            commands.add_parser(command.name, help=command.summary)
    return parser


def command_parser(command: Command) -> argparse.ArgumentParser:
    """The parser of one command by itself (for the docs)."""
    parser = argparse.ArgumentParser(prog=f"modelyard {command.name}")
    _describe(parser, command)
    return parser


def _describe(parser: argparse.ArgumentParser, command: Command) -> None:
    """Examples stand in the module's docstring, below its first paragraph."""
    module = import_module(command.module)
    parser.description = command.summary[0].upper() + command.summary[1:] + "."
    parser.epilog = (module.__doc__ or "").partition("\n\n")[2]
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    module.arguments(parser)


class _ShowVersion(argparse.Action):
    """Looks the version up only when it is asked for: reading the metadata of packages is slow."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(f"modelyard {import_module('modelyard.version').version()}")
        parser.exit()


if __name__ == "__main__":
    sys.exit(main())
