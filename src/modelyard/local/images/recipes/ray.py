"""Ray from PyPI: heads, workers, the autoscaler and what waits for a head, with the argv that KubeRay gives the image."""

from __future__ import annotations

import re
from collections.abc import Sequence

from modelyard.local.images.recipe import LOCKS, Invocation, Recipe, own_programs_first
from modelyard.pins import pins

_START = re.compile(r"(?<![\w./-])ray\s+start(?![\w-])")
_AUTOSCALER = re.compile(r"(?<![\w./-])ray\s+kuberay-autoscaler(?![\w-])")
_GENERATED = "KUBERAY_GEN_RAY_START_CMD"
_MEMORY = re.compile(r"--memory[= ](\d+)")
_OBJECT_STORE = 512 << 20
"""Bytes for objects where no memory is asked for: Ray's own choice would be a third of the machine."""
_LEAST_OBJECT_STORE = 100 << 20


def _translate(invocation: Invocation) -> Invocation:
    ip = invocation.pod_ip
    argv = _words(invocation.argv, ip)
    if generated := invocation.env.get(_GENERATED):
        invocation = invocation.with_env(**{_GENERATED: _placed(generated, ip)})
    return own_programs_first(invocation.with_argv(*argv))


def _words(argv: Sequence[str], ip: str) -> list[str]:
    """The command as one text where it is words, so that `ray start` is found in both."""
    if list(argv[:1]) == ["ray"] and len(argv) > 1:
        head = _placed(f"ray {argv[1]} {' '.join(argv[2:])}", ip).split()
        added = head[2 : len(head) - len(" ".join(argv[2:]).split())]
        return [*argv[:2], *added, *argv[2:]]
    return [_placed(word, ip) for word in argv]


def _placed(text: str, ip: str) -> str:
    """Ray takes the machine's address for its own unless it is told the pod's."""
    text = _START.sub(f"ray start {' '.join(_flags(text, ip))}", text)
    if "--gcs-address" not in text:
        text = _AUTOSCALER.sub(f"ray kuberay-autoscaler --gcs-address={ip}:6379", text)
    return text


def _flags(text: str, ip: str) -> list[str]:
    flags = [] if "--node-ip-address" in text else [f"--node-ip-address={ip}"]
    if "--disable-usage-stats" not in text:
        flags.append("--disable-usage-stats")
    if "--object-store-memory" not in text:
        asked = _MEMORY.search(text)
        size = max(int(asked[1]) * 3 // 10, _LEAST_OBJECT_STORE) if asked else _OBJECT_STORE
        flags.append(f"--object-store-memory={size}")
    return flags


recipe = Recipe(
    name="ray",
    description="Ray head, worker and autoscaler",
    patterns=("ray", "ray-*", "odh-ray*"),
    version=pins()["ray"].local,
    command=("ray", "start", "--head", "--block"),
    lock=LOCKS / "ray.txt",
    translate=_translate,
    # It ends every Ray that it can see, and where pods cannot be kept apart these are all of this machine's.
    programs={"ray stop": ("true",)},
)
