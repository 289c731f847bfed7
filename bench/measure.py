"""What benchmarks read off the operating system."""

from __future__ import annotations

import compileall
import os
from pathlib import Path

import modelyard


def compile_modules() -> None:
    """As an installed package is; a working tree may not be, where Python is told to write no bytecode."""
    compileall.compile_dir(Path(modelyard.__file__ or "").parent, quiet=2)


def rss_mb(pid: int) -> float:
    """Resident memory of one process."""
    return _kilobytes(pid, "status", "VmRSS:") / 1024


def peak_mb(pid: int) -> float:
    """The most resident memory that one process ever had."""
    return _kilobytes(pid, "status", "VmHWM:") / 1024


def pss_mb(pid: int) -> float:
    """Memory of one process, with shared pages counted by their share."""
    return _kilobytes(pid, "smaps_rollup", "Pss:") / 1024


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _kilobytes(pid: int, file: str, field: str) -> float:
    for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
        if line.startswith(field):
            return float(line.split()[1])
    return 0.0
