"""The registry image's program: `model-registry proxy` and its sisters, by the words that operators give.

Also runs as a plain file, `python -I .../programs/__main__.py proxy`, in an environment where modelyard is not installed.
"""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

PROGRAMS = {"proxy": "modelyard.programs.registry.process", "catalog": "modelyard.programs.catalog.process"}


def main(argv: Sequence[str]) -> int:
    word = argv[0] if argv else ""
    if word not in PROGRAMS:
        print(f"Error: unknown command {word!r}: expected {' or '.join(PROGRAMS)}", file=sys.stderr)
        return 1
    return int(importlib.import_module(PROGRAMS[word]).main(argv[1:]))


if __name__ == "__main__":
    if not __package__:
        # Only this room's files are there: the package around them has its place and nothing else.
        around = ModuleType("modelyard")
        around.__path__ = [str(Path(__file__).resolve().parents[1])]
        sys.modules["modelyard"] = around
    sys.exit(main(sys.argv[1:]))
