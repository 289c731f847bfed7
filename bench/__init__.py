"""Benchmarks, each side by side with something else. The example operator is what several of them run."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "examples/greetings"))
