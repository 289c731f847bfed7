"""How much of each sweep is run, by the variable CHAOS: nothing (a sample), `full` (make test-chaos), `everything` (make test-full)."""

from __future__ import annotations

import os

EVERYTHING = os.environ.get("CHAOS") == "everything"
FULL = EVERYTHING or os.environ.get("CHAOS") == "full"
