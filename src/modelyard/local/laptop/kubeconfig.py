"""Adds the laptop cluster to a person's kubeconfig, as one context; everything else in it stays."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

from modelyard.failure import Failed


def merge_context(source: Path, name: str) -> Path:
    """Writes cluster, user and context under `name` into $KUBECONFIG (its first file) or ~/.kube/config, and gives its path."""
    paths = [p for p in os.environ.get("KUBECONFIG", "").split(os.pathsep) if p]
    target = Path(paths[0]) if paths else Path.home() / ".kube" / "config"
    new = yaml.safe_load(source.read_text())
    try:
        old = yaml.safe_load(target.read_text()) if target.exists() else None
    except (OSError, yaml.YAMLError) as error:
        raise Failed(f"{target} cannot be read, so nothing was merged into it: {error}") from None
    merged: dict[str, Any] = old or {"apiVersion": "v1", "kind": "Config"}
    for section, key in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
        entry = dict(new[section][0][key])
        if section == "contexts":
            entry = {"cluster": name, "user": name}
        kept = [one for one in merged.get(section) or [] if one.get("name") != name]
        merged[section] = [*kept, {"name": name, key: entry}]
    merged["current-context"] = name
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.modelyard")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        yaml.safe_dump(merged, file, sort_keys=False)
    os.replace(fresh, target)
    return target
