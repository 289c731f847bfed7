"""A dataflow page as Markdown or as a Mermaid sequence diagram."""

from __future__ import annotations

from collections.abc import Sequence

from modelyard.cli.pages.flow import Flow

_API = "KubernetesAPI"


def markdown(flow: Flow) -> str:
    parts = [
        f"# {flow.operator}: Dataflow",
        f"{flow.title}. {_role(flow)} This page is made from the declarations in the code by `modelyard dataflow`.",
        "## Controller Watches",
        "What the controllers look at. A change of any of these wakes the resource it concerns. "
        "A kind marked *optional* is watched from the moment the cluster serves it.",
        table(
            ["Type", "GVK", "Source"],
            [[w.type, w.gvk + (" *(optional)*" if w.optional else ""), f"`{w.source}`"] for w in flow.watches],
        ),
        "## Reconciliation Flow",
        "How the controllers and the Kubernetes API talk.",
        f"```mermaid\n{mermaid(flow)}```",
        "## Exposed Services",
        table(
            ["Name", "Port", "Purpose", "Source"],
            [[s.name, _port(s.port, s.protocol, s.port_name), s.role, f"`{s.source}`"] for s in flow.services],
        )
        if flow.services
        else "None.",
        "## Defined CRDs",
        table(["Kind", "API version"], [[c.kind, c.api_version] for c in flow.crds]) if flow.crds else "None.",
    ]
    if flow.webhooks:
        rows = [[w.name, w.type, f"`{w.path}`", w.failure_policy, w.service, f"`{w.source}`"] for w in flow.webhooks]
        parts += ["## Webhooks", table(["Name", "Type", "Path", "Failure Policy", "Service", "Source"], rows)]
    parts += [
        "## HTTP Endpoints",
        "Of the process that runs the controllers; all operators share them.",
        table(["Method", "Path", "Purpose"], [[f"`{e.method}`", f"`{e.path}`", e.purpose] for e in flow.endpoints]),
        "## Configuration",
        table(
            ["Variable", "Default", "Meaning"],
            [[f"`{s.name}`", f"`{s.default}`" if s.default else "", s.description] for s in flow.settings],
        )
        if flow.settings
        else "Nothing to set.",
    ]
    return "\n\n".join(parts) + "\n"


def mermaid(flow: Flow) -> str:
    manager = flow.operator.replace("-", "_")
    lines = [
        "sequenceDiagram",
        f"    participant {_API} as Kubernetes API",
        f"    participant {manager} as {flow.operator}",
        "",
    ]
    arrows = {
        "For": f"{_API}->>+{manager}: Watch {{}} (reconcile)",
        "Owns": f"{manager}->>{_API}: Create/Update {{}}",
        "Watches": f"{_API}-->>+{manager}: Watch {{}} (informer)",
        "Wraps": f"{manager}->>{_API}: Create, watch and delete {{}}",
    }
    lines += [
        "    " + arrows[type_].format(kind) for type_, kind in dict.fromkeys((w.type, w.kind) for w in flow.watches)
    ]
    if flow.services:
        lines += ["", f"    Note over {manager}: Exposed Services"]
        lines += [
            f"    Note right of {manager}: {s.name}:{_port(s.port, s.protocol, s.port_name)}" for s in flow.services
        ]
    if flow.crds:
        lines += ["", f"    Note over {_API}: Defined CRDs"]
    lines += [f"    Note right of {_API}: {c.kind} ({c.api_version})" for c in flow.crds]
    return "\n".join(lines) + "\n"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def _port(port: int, protocol: str, name: str) -> str:
    return f"{port or 'as set'}/{protocol}" + (f" [{name}]" if name else "")


def _role(flow: Flow) -> str:
    if flow.upstream != "none":
        return f"Takes the custom resources of `{flow.upstream}`."
    return "Has custom resources of our own." if flow.crds else "Has no custom resource and runs with every operator."
