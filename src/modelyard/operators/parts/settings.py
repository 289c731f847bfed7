"""Settings that several operators have."""

from __future__ import annotations

from collections.abc import Mapping

from modelyard.runtime.declaring.predecessor import SETTING
from modelyard.runtime.declaring.settings import setting


def predecessor_setting() -> tuple[str, ...]:
    """Where an operator that we take over from may run, as the admin says."""
    none: tuple[str, ...] = ()
    return setting(
        SETTING,
        none,
        "Namespaces, comma-separated, in which the operator that served these resources before may run, besides its usual ones",
    )


def beside_us(environ: Mapping[str, str], namespaces: tuple[str, ...]) -> tuple[str, ...]:
    """Those namespaces and our own: an operator that we take over from may run there as well."""
    return tuple(filter(None, (environ.get("POD_NAMESPACE", "").strip(), *namespaces)))
