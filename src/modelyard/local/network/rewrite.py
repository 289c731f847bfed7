"""Loopback is shared by all pods, so a pod's own loopback and its wildcard addresses become the pod's address."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_OWN = re.compile(
    r"(?<![\w.:-])(?:0\.0\.0\.0|127\.0\.0\.1|localhost)(?![\w.-]|/\d)"
    r"|\[::1?\]"
    r"|(?<=[=\s])::(?=$|\s)"
    r"|(?<=://)(?:0\.0\.0\.0|127\.0\.0\.1|localhost)(?![\w.-])"
    r"|(?<=@)(?:0\.0\.0\.0|127\.0\.0\.1|localhost)(?![\w.-])"
    r"|(?<=tcp:)(?:0\.0\.0\.0|127\.0\.0\.1|localhost)(?![\w.-])"
)


def own_address(text: str, pod_ip: str) -> str:
    """`0.0.0.0`, `127.0.0.1`, `localhost` and `[::]` as hosts in the text become the pod's address. CIDRs stay."""
    if text in ("::", "::1"):
        return pod_ip
    return _OWN.sub(pod_ip, text)


def rewrite_argv(argv: Sequence[str], pod_ip: str) -> list[str]:
    return [own_address(word, pod_ip) for word in argv]


def rewrite_env(env: Mapping[str, str], pod_ip: str, keep: frozenset[str] = frozenset()) -> dict[str, str]:
    return {name: value if name in keep else own_address(value, pod_ip) for name, value in env.items()}


def rewrite_paths(text: str, places: Mapping[str, str]) -> str:
    """Mount paths in the text become the directories that hold them (where no mount namespace can be had)."""
    for mount in sorted(places, key=len, reverse=True):
        if mount in ("/", ""):
            continue
        pattern = re.compile(rf"(?<![\w.-]){re.escape(mount.rstrip('/'))}(?=$|[/:\s,;'\"?])")
        text = pattern.sub(places[mount].replace("\\", "\\\\"), text)
    return text
