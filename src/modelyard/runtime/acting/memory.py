"""What the engine remembers between passes. Losing it (a restart) costs at most one needless write a child, never a wrong one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from modelyard.kube.kinds import Key, Kind, Object

REMAKES = 20
"""How often a child is repaired or made again within the window before we stop fighting."""
WINDOW = 600.0


def fingerprint(obj: object) -> int:
    """Equal for equal data, whatever the order of its keys; good within this process."""
    return hash(msgspec.json.encode(obj, order="deterministic"))


@dataclass
class ChildMemory:
    """One child: what was applied last, and how often that had to be done again."""

    desired: int = 0
    admitted: tuple[str, ...] | None = None
    """What still differed right after our own apply: admission changed it, or our comparison does not know the rule."""
    repairs: deque[float] = field(default_factory=deque)
    settled: tuple[int, str] | None = None
    """What was desired and the version of the live object when they were last found to agree."""

    def is_settled(self, desired: int, differences: tuple[str, ...]) -> bool:
        return self.desired == desired and self.admitted == differences

    def applied(self, desired: int, differences: tuple[str, ...], version: str, time: float) -> None:
        """Records an apply and the version that came of it; one that repeats the last is a repair."""
        if self.desired == desired:
            self.repairs.append(time)
        else:
            self.repairs.clear()
        self.desired, self.admitted = desired, differences
        self.settled = (desired, version)

    def contested_for(self, desired: int, time: float) -> float:
        """Seconds until the next repair is allowed; 0 if it is allowed now."""
        if self.desired != desired:
            return 0.0
        while self.repairs and self.repairs[0] <= time - WINDOW:
            self.repairs.popleft()
        return self.repairs[0] + WINDOW - time if len(self.repairs) >= REMAKES else 0.0


@dataclass
class KeyMemory:
    """One key of a controller."""

    children: dict[tuple[Kind, Key], ChildMemory] = field(default_factory=dict)
    status: tuple[int, int] | None = None
    """Fingerprints of what the API did not keep of our last status (fields it does not know), and of what it made of it."""
    events: dict[tuple[str, str, str], float] = field(default_factory=dict)
    """When each Event of the last pass was last sent."""

    def child(self, kind: Kind, key: Key) -> ChildMemory:
        return self.children.setdefault((kind, key), ChildMemory())

    def keep_only(self, wanted: Iterable[tuple[Kind, Key]]) -> None:
        """Forgets the children that are no longer desired."""
        kept = set(wanted)
        for gone in [place for place in self.children if place not in kept]:
            del self.children[gone]


@dataclass
class Memory:
    """Of one controller."""

    keys: dict[Key, KeyMemory] = field(default_factory=dict)

    def of(self, key: Key) -> KeyMemory:
        return self.keys.setdefault(key, KeyMemory())

    def forget(self, key: Key) -> None:
        self.keys.pop(key, None)


def merged(base: Object, extra: Object) -> Object:
    """`extra` laid over `base`, mapping by mapping; neither is changed."""
    result = dict(base)
    for name, value in extra.items():
        have = result.get(name)
        result[name] = merged(have, value) if isinstance(have, dict) and isinstance(value, dict) else value
    return result
