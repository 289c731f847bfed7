"""Settings of an operator, each declared once: a field of a dataclass. The parser and the documentation are made from the declaration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from modelyard.kube.builtin import ConfigMap
from modelyard.kube.kinds import Kind, Object

if TYPE_CHECKING:

    class Declared(Protocol):
        """A frozen dataclass whose fields are settings."""

        __dataclass_fields__: ClassVar[dict[str, Any]]


T = TypeVar("T")
S = TypeVar("S", bound="Declared")
_SETTING = "setting"
_TRUE = frozenset(("1", "t", "true", "yes", "on"))
_FALSE = frozenset(("0", "f", "false", "no", "off"))


class SettingError(ValueError):
    """A setting has a value that cannot be used. The text names it, its value and what is allowed."""

    def __init__(self, name: str, value: str, remedy: str) -> None:
        super().__init__(f"setting {name}={value!r} cannot be used: {remedy}")
        self.name = name


@dataclass(frozen=True)
class Form(Generic[T]):
    """How a text becomes a value."""

    parse: Callable[[str], T]
    """Raises `ValueError` for a text that is not allowed."""
    allowed: str
    """What is allowed, as a remedy: `use true or false`."""
    text: Callable[[T], str] = str
    """The value as an admin would write it."""


@dataclass(frozen=True)
class Setting:
    """One setting: where it is read from, what it is without that, and what it means."""

    variable: str
    """The environment variable; empty for a setting that only a ConfigMap has."""
    default: object
    help: str
    form: Form[Any]
    also: tuple[str, ...] = ()
    """Other variables that are taken where the first is not set, in this order."""
    key: str = ""
    """The key of a ConfigMap that goes before the variables and may change while the process runs."""
    otherwise: str = ""
    """What holds without it, in words, where the default value does not say it."""
    config_map: str = ""
    """NAMESPACE/NAME of that ConfigMap, for people."""

    @property
    def name(self) -> str:
        return self.variable or self.key

    @property
    def variables(self) -> tuple[str, ...]:
        return (self.variable, *self.also) if self.variable else self.also

    @property
    def without(self) -> str:
        """What holds where it is not set, for people."""
        return ", else ".join(filter(None, (*self.also, self.otherwise or self.form.text(self.default))))

    @property
    def description(self) -> str:
        """What it means, for people."""
        if not self.key:
            return self.help
        place = f"key `{self.key}` of ConfigMap {self.config_map or 'of the operator'}"
        before = f"{place} goes before it and" if self.variable else f"{place};"
        return f"{self.help}; {before} may change while the plane runs"

    def read(self, variables: Mapping[str, str]) -> object:
        """The first variable that is set counts; an empty one is not set."""
        for name in self.variables:
            if value := variables.get(name, "").strip():
                return self.parsed(name, value)
        return self.default

    def parsed(self, name: str, value: str) -> object:
        try:
            return self.form.parse(value)
        except ValueError:
            raise SettingError(name, value, self.form.allowed) from None


def setting(
    variable: str,
    default: T,
    help: str,
    *,
    also: Sequence[str] = (),
    key: str = "",
    form: Form[T] | None = None,
    otherwise: str = "",
) -> T:
    """A field of a dataclass of settings: `replicas: int = setting("REPLICAS", 1, "How many run")`.

    What is allowed follows from the type of the default (text, number, true or false, a choice, a list of words); `form` says it
    where that is not enough.
    """
    if not variable and not key:
        raise ValueError("a setting needs a variable or a key of a ConfigMap")
    declared = Setting(variable, default, help, form or _form_of(default), tuple(also), key, otherwise)
    made: T = field(default=default, metadata={_SETTING: declared})
    return made


def settings_of(declared: type[Declared], config_map: SettingsMap[Any] | None = None) -> tuple[Setting, ...]:
    """The settings that a class declares, for the documentation and for `manifests`."""
    place = f"{config_map.namespace}/{config_map.name}" if config_map is not None else ""
    return tuple(replace(one, config_map=place if one.key else "") for one in _declared(declared).values())


def read_settings(declared: type[S], variables: Mapping[str, str]) -> S:
    """The settings from environment variables; a bad value is a `SettingError` that names it."""
    return declared(**{name: one.read(variables) for name, one in _declared(declared).items()})


class Gets(Protocol):
    """Whoever reads one object from a cache: a World or a Reader."""

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None: ...


@dataclass(frozen=True)
class SettingsMap(Generic[S]):
    """A ConfigMap with settings that may change while the process runs.

    `Controller(settings=...)` watches it and wakes every key of the controller when it changes; the reconcile asks `current(world)`.
    A bad value holds the resources of that controller, with a condition that says what is allowed, until it is mended.
    """

    start: S
    """What the process was started with: holds for every key that the ConfigMap does not have."""
    namespace: str
    name: str

    def current(self, objects: Gets) -> S:
        """The settings as the ConfigMap has them now."""
        found = objects.get(ConfigMap, self.namespace, self.name)
        data: Mapping[str, str] = (found or {}).get("data") or {}
        values = {
            name: one.parsed(f"{one.key} of ConfigMap {self.namespace}/{self.name}", text)
            for name, one in _declared(type(self.start)).items()
            if one.key and (text := str(data.get(one.key, "")).strip())
        }
        return replace(self.start, **values)


def matching(accepts: Callable[[str], bool], allowed: str) -> Form[str]:
    """A text that passes a check."""

    def parse(value: str) -> str:
        if not accepts(value):
            raise ValueError(value)
        return value

    return Form(parse, allowed)


def whole_number(at_least: int | None = None, at_most: int | None = None) -> Form[int]:
    """A whole number within limits."""
    limits = [
        f"at least {at_least}" if at_least is not None else "",
        f"at most {at_most}" if at_most is not None else "",
    ]

    def parse(value: str) -> int:
        number = int(value)
        if (at_least is not None and number < at_least) or (at_most is not None and number > at_most):
            raise ValueError(value)
        return number

    return Form(parse, ", ".join(filter(None, ("use a whole number", *limits))))


def _declared(declared: type[Declared]) -> dict[str, Setting]:
    return {one.name: one.metadata[_SETTING] for one in fields(declared) if _SETTING in one.metadata}


def _form_of(default: T) -> Form[T]:
    """The form that a default value suggests."""
    form: Any
    match default:
        case bool():
            form = Form(_flag, "use true or false", lambda value: str(value).lower())
        case Enum():
            choices = type(default)
            values = ", ".join(str(one.value) for one in choices)
            form = Form(lambda text: choices(text.lower()), f"use one of {values}", lambda value: str(value.value))
        case int():
            form = whole_number()
        case float():
            form = Form(float, "use a number")
        case tuple():
            form = Form(words, "name them with commas between", ",".join)
        case str():
            form = Form(str, "use a text")
        case _:
            raise TypeError(f"no form is known for a {type(default).__name__}; give the setting one")
    found: Form[T] = form
    return found


def _flag(text: str) -> bool:
    word = text.lower()
    if word not in _TRUE | _FALSE:
        raise ValueError(text)
    return word in _TRUE


def words(text: str) -> tuple[str, ...]:
    """A comma-separated list."""
    return tuple(word for part in text.split(",") if (word := part.strip()))
