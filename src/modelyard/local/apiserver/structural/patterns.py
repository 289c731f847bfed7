"""Regular expressions as Go reads them: RE2 syntax, `$` only at the very end, no exponential time."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

Matcher = Callable[[str], object]

# A group that repeats may take Python's engine exponential time; n repetitions take it time in the nth power of the text.
_REPETITION = re.compile(r"[*+{]")
_REPEATED_GROUP = re.compile(r"\)[*+{]")
_COUNTED = re.compile(r"\{(\d{1,9})(?:,(\d{0,9}))?\}", re.ASCII)
_LONG_TEXT = 1000
_MOST_STEPS = 10_000_000
_FOREIGN = re.compile(r"\\[pPzQEC]|\[\[?:|\(\?<|\(\?[a-zA-Z]*[UmsR]|\\x\{|&&|--|\|\||~~|\(\?[=!#]|\\[0-9]|\[[^]]*\[")

_GO_WORDS = {
    "missing )": "missing closing )",
    "unexpected )": "unexpected )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "trailing \\": "trailing backslash at end of expression",
    "invalid named capture group": "invalid named capture",
}


@lru_cache(maxsize=2048)
def matcher(pattern: str) -> Matcher:
    """A test whether the pattern matches anywhere in a text. An invalid pattern matches nothing."""
    safe = _re2(pattern)
    if _FOREIGN.search(pattern) or _REPEATED_GROUP.search(pattern) or len(_REPETITION.findall(pattern)) > 2:
        return safe
    try:
        fast = re.compile(_anchored(pattern), re.ASCII).search
    except (re.error, RecursionError, OverflowError):
        return safe
    return lambda text: fast(text) if len(text) < _LONG_TEXT else safe(text)


def is_quick(pattern: str, size: int) -> bool:
    """Whether Python's engine, which can also say what matched, is done soon with a text of that size."""
    return not _REPEATED_GROUP.search(pattern) and size ** len(_REPETITION.findall(pattern)) <= _MOST_STEPS


def weight(pattern: str) -> int:
    """How large the machine is that a pattern becomes: each look at a text takes time with it."""
    counted = (max(int(text or 0) for text in found) for found in _COUNTED.findall(pattern))
    return len(pattern) + sum(counted)


def whole_matcher(pattern: str) -> Matcher:
    """A test whether the pattern matches all of a text."""
    return matcher(f"^(?:{pattern})$")


def pattern_problem(pattern: str) -> str | None:
    """What is wrong with a pattern, in Go's words; None when it is valid."""
    result = _expression().eval(data={"text": "", "pattern": pattern})
    text = str(result.value()).partition("invalid regular expression: ")[2]
    if not text:
        return None
    words, _, place = text.partition(": ")
    return f"error parsing regexp: {_GO_WORDS.get(words, words)}: `{place}`"


def _anchored(pattern: str) -> str:
    """Python's `$` also matches before a final newline; `\\Z` does not."""
    out, in_class, escaped = [], False, False
    for char in pattern:
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == "[":
            in_class = True
        elif char == "]":
            in_class = False
        elif char == "$" and not in_class:
            char = r"\Z"
        out.append(char)
    return "".join(out)


def _re2(pattern: str) -> Matcher:
    return lambda text: _expression().eval(data={"text": text, "pattern": pattern}).value() is True


@cache
def _expression() -> Any:
    """CEL's `matches` is RE2 itself. The library is loaded only when a pattern needs it."""
    from cel_expr_python import cel

    environment = cel.NewEnv(variables={"text": cel.Type.STRING, "pattern": cel.Type.STRING})
    return environment.compile("text.matches(pattern)")
