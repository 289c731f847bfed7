"""CEL as Kubernetes offers it: environments with its libraries, expressions, and errors in the words of its interpreter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from cel_expr_python import cel

from modelyard.local.apiserver.cel.rewriting import wrap_calls
from modelyard.local.apiserver.cel.syntax import Syntax, read_syntax

_MOST_KNOWN = 500


class CelSyntaxError(Exception):
    """An expression that does not compile; the text is the compiler's."""


class CelRuntimeError(Exception):
    """An evaluation that failed; the text is what Kubernetes' interpreter says."""


class CelBudgetExceeded(CelRuntimeError):
    """An expression takes more steps than one may."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression."""

    text: str
    program: Any
    syntax: Syntax

    @property
    def result(self) -> str:
        """The name of the result's type, in capitals as the library writes it."""
        return str(self.program.return_type().name())

    def evaluate(self, activation: Any) -> Any:
        """A Python value. Raises `CelRuntimeError`."""
        try:
            result = self.program.eval(activation)
        except RuntimeError as error:
            if "budget exceeded" in str(error):
                raise CelBudgetExceeded("operation cancelled: actual cost limit exceeded") from None
            raise
        value = result.value()
        # Asking for the type costs as much as the evaluation; only a text can be an error.
        if type(value) is str and result.type() == cel.Type.ERROR:
            raise CelRuntimeError(_go_words(value))
        return value


class Environment:
    """Variables with their types, and the functions."""

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self._variables = dict(variables)
        self._core: Any = cel.NewEnv(variables=self._variables)
        self._full: Any = None
        self._known: dict[str, Expression] = {}

    def compile(self, text: str) -> Expression:
        """Raises `CelSyntaxError`. The same text comes often: a definition's versions share rules, and are judged before use."""
        known = self._known.get(text)
        if known is not None:
            return known
        try:
            program = self._core.compile(text)
        except RuntimeError:
            # What needs the libraries fails without them, and most rules do not need them: they take several megabytes.
            try:
                program = self._extended().compile(text)
            except RuntimeError as error:
                raise CelSyntaxError(_compiler_words(str(error))) from None
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        expression = self._known[text] = Expression(text, program, read_syntax(program.serialize()))
        return expression

    def converting(self, expression: Expression, conversions: Mapping[int, str]) -> Expression:
        """The expression with functions put around some of its parts, by their ids."""
        if not conversions:
            return expression
        program = self._extended().deserialize(wrap_calls(expression.program.serialize(), conversions))
        return Expression(expression.text, program, expression.syntax)

    def _extended(self) -> Any:
        if self._full is None:
            from modelyard.local.apiserver.cel.libraries import extensions, function_declarations

            self._full = cel.NewEnv(
                variables=self._variables, extensions=extensions(), functions=function_declarations()
            )
        return self._full

    def activation(self, values: Mapping[str, Any]) -> Any:
        return self._core.Activation(dict(values))


@lru_cache(maxsize=64)
def rule_environment(self_type: Any) -> Environment:
    """For rules on values of one type. `self_type` is compared by its name."""
    return Environment({"self": self_type.type, "oldSelf": self_type.type})


class TypeKey:
    """A CEL type that can key a cache."""

    __slots__ = ("_name", "type")

    def __init__(self, type_: Any) -> None:
        self.type = type_
        self._name = str(type_)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeKey) and other._name == self._name

    def __hash__(self) -> int:
        return hash(self._name)


def _compiler_words(text: str) -> str:
    return text.removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")


def _go_words(text: str) -> str:
    text = text.partition(": ")[2] or text
    if match := re.search(r'Key not found in map : "?(.*?)"?$', text):
        return f"no such key: {match[1]}"
    if match := re.search(r"Index error: index=(-?\d+)", text):
        return f"index out of bounds: {match[1]}"
    if text.startswith("No matching overloads found"):
        return "no such overload"
    return {"divide by zero": "division by zero", "modulus by zero": "modulus by zero"}.get(text, text)
