"""Makes programs bind to their pod's address: a preloaded library where a compiler is found, a Python hook always."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SHIM = Path(__file__).parent / "shim"


@dataclass(frozen=True, slots=True)
class BindShim:
    """What a container needs to see and have in its environment."""

    library: Path | None

    def environment(self, pod_ip: str, env: dict[str, str]) -> dict[str, str]:
        path = env.get("PYTHONPATH", "")
        added = {"MODELYARD_POD_IP": pod_ip, "PYTHONPATH": f"{SHIM}:{path}" if path else str(SHIM)}
        if self.library is not None:
            preload = env.get("LD_PRELOAD", "")
            added["LD_PRELOAD"] = f"{self.library}:{preload}" if preload else str(self.library)
        return env | added

    def shown(self) -> list[Path]:
        return [SHIM, *([self.library] if self.library else [])]


def bind_shim(cache: Path) -> BindShim:
    """The shim of this machine; the library is compiled once, if a C compiler is there."""
    source = SHIM / "bind.c"
    library = cache / f"bind-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}.so"
    if library.exists():
        return BindShim(library)
    compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    if compiler is None:
        return BindShim(None)
    cache.mkdir(parents=True, exist_ok=True)
    temporary = library.with_suffix(f".{os.getpid()}.tmp")
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(temporary), str(source), "-ldl"]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    except (subprocess.SubprocessError, OSError):
        return BindShim(None)
    temporary.chmod(0o755)
    temporary.rename(library)
    return BindShim(library)
