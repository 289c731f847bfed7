"""The other generated pages: settings, metrics, the command line, and the table of systems."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence

from modelyard.cli.pages.dataflow import table
from modelyard.runtime.declaring.operator import Operator
from modelyard.runtime.declaring.operator_metrics import Count, OwnMetric
from modelyard.runtime.process.metrics import Metrics

PROCESS_SETTINGS = (
    ("KUBECONFIG", "~/.kube/config", "Which cluster the commands talk to; several files are merged"),
    ("POD_NAMESPACE", "modelyard", "`run`: the namespace of the lease and of the webhooks' certificate"),
    (
        "MODELYARD_DIR",
        "~/.local/share/modelyard",
        "The folder of the laptop cluster, where `--dir` does not say; a cluster in `.up` of this folder goes before the default",
    ),
    ("MODELYARD_CACHE", "~/.cache/modelyard", "Where the programs that pods run are built and kept"),
    ("PIP_INDEX_URL, UV_DEFAULT_INDEX", "the public index", "Where those programs' packages come from"),
    ("NO_COLOR", "", "Set to anything: no colours in a terminal either; piped output never has any"),
)
"""Variables that are read by the process itself: (name, default, meaning)."""


def settings(operators: Sequence[Operator]) -> str:
    parts = [
        "# Settings",
        "Everything is set by environment variables; on a cluster, in the Deployment that `modelyard manifests` prints. "
        "`modelyard run`, `manifests` and `plan` take settings of the operators as `--set NAME=VALUE` too. A bad value stops the start "
        "with a message that names the variable, its value and what is allowed. Written by `modelyard docs`.",
        "## The process",
        _settings(PROCESS_SETTINGS),
    ]
    for operator in operators:
        if operator.settings:
            parts += [
                f"## {operator.title}",
                _settings((s.name, s.without, s.description) for s in operator.settings),
            ]
    return "\n\n".join(parts) + "\n"


def _settings(rows: Iterable[tuple[str, str, str]]) -> str:
    return table(
        ["Variable", "Default", "Meaning"],
        [[f"`{name}`", f"`{default}`" if default else "", meaning] for name, default, meaning in rows],
    )


def metrics(operators: Sequence[Operator]) -> str:
    found = [
        family
        for family in Metrics().registry.collect()
        if not family.name.startswith(("process_", "python_"))  # They are what any Python process has.
    ]
    rows = [[f"`{_series(family.name, family.type)}`", family.type, family.documentation] for family in found]
    parts = [
        "# Metrics",
        "`GET /metrics` on the health port, in Prometheus' format. Names and labels are those that controller-runtime made "
        "known, so existing dashboards and alerts work. Beside these there are the usual `process_*` and `python_*` ones. "
        "Written by `modelyard docs`.",
        table(["Metric", "Type", "Meaning"], sorted(rows)),
        "Labels: `controller` is the controller's name as on the dataflow pages; `result` is `success`, `error`, "
        "`requeue` or `requeue_after`; `webhook` is the path.",
    ]
    for operator in operators:
        if operator.metrics:
            own = [
                [f"`{_series(m.name, _type(m))}`", _type(m), ", ".join(f"`{label}`" for label in m.labels), m.help]
                for m in operator.metrics
            ]
            parts += [f"## {operator.title}", table(["Metric", "Type", "Labels", "Meaning"], sorted(own))]
    return "\n\n".join(parts) + "\n"


def _type(metric: OwnMetric) -> str:
    return "counter" if isinstance(metric, Count) else "gauge"


def _series(name: str, type_: str) -> str:
    return f"{name}_total" if type_ == "counter" else name


def commands(parsers: Mapping[str, argparse.ArgumentParser], exit_codes: str) -> str:
    parts = [
        "# The command line",
        "`modelyard COMMAND --help` says the same in a terminal. Written by `modelyard docs`.",
        "## Exit codes",
        "```text\n" + exit_codes.partition("\n")[2].rstrip() + "\n```",
        "Tables and trees have colours in a terminal only. `-o json` prints the same facts for programs.",
    ]
    for name, parser in parsers.items():
        parts += [f"## modelyard {name}", parser.description or ""]
        if parser.epilog:
            parts.append("```text\n" + parser.epilog.strip() + "\n```")
        rows = [_argument(action) for action in parser._actions if action.dest != "help"]
        if rows:
            parts.append(table(["Argument", "Meaning"], rows))
    return "\n\n".join(parts) + "\n"


def _argument(action: argparse.Action) -> Sequence[str]:
    """Not argparse's own text: that differs between versions of Python."""
    value = ""
    if action.nargs != 0:
        value = str(action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper()))
        value += "..." if action.nargs in ("+", "*") else ""
    if not action.option_strings:
        return [f"`{value}`" if action.nargs != "?" else f"`[{value}]`", action.help or ""]
    said = ", ".join(action.option_strings)
    return [f"`{said} {value}`" if value else f"`{said}`", action.help or ""]


def systems(operators: Sequence[Operator], planned: Mapping[str, str]) -> str:
    """The table of the README."""
    rows = [
        [
            f"[{o.title}](docs/operators/{o.name}.md)",
            f"`{o.name}`",
            ", ".join(dict.fromkeys(d.kind_name for d in o.definitions)),
            f"built; takes what `{o.upstream}` takes: [fields](docs/reference/kinds-{o.name}.md), "
            f"[dataflow](docs/dataflow/{o.name}.md)",
        ]
        for o in operators
    ]
    for name, summary in planned.items():
        title, _, kinds = summary.partition(": ")
        rows.append([title, f"`{name}`", kinds, "not built yet"])
    return table(["System", "Operator", "Kinds", "State"], rows)
