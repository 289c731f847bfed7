"""`x-kubernetes-validations` of custom resources: compiled once a schema, evaluated on every write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.cel.environments import (
    CelBudgetExceeded,
    CelRuntimeError,
    CelSyntaxError,
    Environment,
    Expression,
    TypeKey,
    rule_environment,
)
from modelyard.local.apiserver.cel.shapes import (
    View,
    compile_view,
    conversions,
    is_typed,
    merged,
    resource_root,
    rule_type,
    undefined_fields,
    uses_of,
)
from modelyard.local.apiserver.requests.problems import (
    Cause,
    duplicate,
    field_forbidden,
    go_value,
    invalid_value,
    required,
)
from modelyard.local.apiserver.structural import Node, read_schema, resolve_field_path

_MAX_MESSAGE = 5 * 1024
_SECONDS = 2.0
"""How long the rules of one write may take: others wait meanwhile."""


@dataclass(slots=True)
class Rule:
    """One compiled rule, or why it does not compile."""

    source: Object
    program: Expression | None = None
    without_old: Expression | None = None
    """Of a rule with optionalOldSelf: the program for when there is no old value."""
    message: Expression | None = None
    uses_old: bool = False
    optional_old: bool = False
    field_path: str = ""
    error: str = ""
    message_error: str = ""

    @property
    def title(self) -> str:
        """What names the rule in errors."""
        return str(self.source.get("message") or self.source.get("rule") or "").strip()

    @property
    def default_message(self) -> str:
        message = self.source.get("message")
        return str(message).strip() if message else f"failed rule: {self.title}"


@dataclass(slots=True)
class _Node:
    """The rules at one place of the schema and below it."""

    schema: Node
    type_name: str
    rules: list[Rule]
    environment: Environment | None = None
    view: View | None = None
    old_view: View | None = None
    at_create: Expression | None = None
    """All rules that need no old value as one: when it holds, none has to be looked at alone."""
    at_update: Expression | None = None
    properties: dict[str, _Node] = field(default_factory=dict)
    additional: _Node | None = None
    items: _Node | None = None


class RuleValidator:
    """All rules of one schema."""

    def __init__(self, root: _Node) -> None:
        self._root = root

    def validate(self, obj: Any, old: Any = None, path: str = "") -> list[Cause]:
        """`old` is None on create. Rules that failed before on a value that did not change do not fail the write."""
        causes = _Causes(monotonic() + _SECONDS)
        try:
            _validate(self._root, obj, old, path, (obj, old), causes)
        except _Over as over:
            causes.append(over.cause)
        return list(causes)


class _Causes(list[Cause]):
    """What was found, and until when more may be looked for."""

    def __init__(self, end: float) -> None:
        super().__init__()
        self.end = end


class _Over(Exception):
    """The rules take more than they may; the rest of them is not looked at."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(str(cause))
        self.cause = cause


def compile_validator(schema: Node, *, resource: bool = True) -> RuleValidator | None:
    """The validator of a schema; None where no part of it has rules. `resource`: the root is a whole object."""
    root = _compile_node(schema, resource)
    return RuleValidator(root) if root is not None else None


def _compile_node(node: Node, resource: bool) -> _Node | None:
    properties = {
        name: compiled
        for name, child in node.properties.items()
        if is_typed(child) and (compiled := _compile_node(child, child.embedded))
    }
    additional = _compile_node(node.additional, node.additional.embedded) if node.additional else None
    items = _compile_node(node.items, node.items.embedded) if node.items else None
    if not (node.rules or properties or additional or items):
        return None
    compiled = _Node(node, node.type, [], properties=properties, additional=additional, items=items)
    if node.rules:
        compiled.rules, shape = _rules(node, resource)
        compiled.environment = rule_environment(TypeKey(rule_type(shape)))
        programs = [p for rule in compiled.rules for p in (rule.program, rule.without_old, rule.message) if p]
        uses = _united([uses_of("self", program.syntax) for program in programs])
        old_uses = _united([uses_of("oldSelf", program.syntax) for program in programs])
        compiled.view, compiled.old_view = compile_view(shape, uses), compile_view(shape, old_uses)
        compiled.at_create = _together([r for r in compiled.rules if not r.uses_old], shape, compiled.environment)
        compiled.at_update = _together(compiled.rules, shape, compiled.environment)
    return compiled


def _together(rules: list[Rule], shape: Node, environment: Environment) -> Expression | None:
    """Several rules as one expression: evaluating it once costs little more than one of them."""
    if len(rules) < 2 or any(rule.error or rule.optional_old or rule.program is None for rule in rules):
        return None
    try:
        text = " && ".join(f"({rule.source['rule']}\n)" for rule in rules)
        return _compile(text, environment, {"self": shape, "oldSelf": shape}, False)
    except CelSyntaxError:
        # Too many or too deep for one expression.
        return None


def _united(trees: list[Any]) -> Any:
    united: Any = {}
    for tree in trees:
        united = merged(united, tree)
    return united


def rules_of(node: Node, resource: bool) -> list[Rule]:
    """The rules of one schema node, without those inside it."""
    return _rules(node, resource)[0]


def _rules(node: Node, resource: bool) -> tuple[list[Rule], Node]:
    shape = resource_root(node) if resource else node
    environment = rule_environment(TypeKey(rule_type(shape)))
    return [_compile_rule(source, node, shape, environment) for source in node.rules], shape


def _compile_rule(source: Object, node: Node, shape: Node, environment: Environment) -> Rule:
    rule = Rule(source, optional_old=bool(source.get("optionalOldSelf")))
    text = str(source.get("rule") or "")
    if not text.strip():
        return rule
    variables = {"self": shape} if rule.optional_old else {"self": shape, "oldSelf": shape}
    try:
        rule.program = _compile(text, environment, variables, rule.optional_old)
        if rule.optional_old:
            rule.without_old = environment.compile(f"cel.bind(oldSelf, optional.none(), {text}\n)")
    except CelSyntaxError as error:
        rule.error = f"compilation failed: {error}"
        return rule
    rule.uses_old = "oldSelf" in rule.program.syntax.names()
    if rule.program.result not in ("BOOL", "DYN"):
        rule.error = "cel expression must evaluate to a bool"
        return rule
    if expression := source.get("messageExpression"):
        try:
            rule.message = _compile(str(expression), environment, variables, rule.optional_old)
            if rule.message.result not in ("STRING", "DYN"):
                rule.message_error = "messageExpression must evaluate to a string"
        except CelSyntaxError as error:
            rule.message_error = f"messageExpression compilation failed: {error}"
    if field_path := source.get("fieldPath"):
        rule.field_path = resolve_field_path(str(field_path), node.raw) or ""
    return rule


def _compile(text: str, environment: Environment, variables: Mapping[str, Node], optional_old: bool) -> Expression:
    if optional_old:
        # The variable of that name is an optional; inside the binding the rule sees it under its own name.
        return environment.compile(f"cel.bind(oldSelf, optional.of(oldSelf), {text}\n)")
    expression = environment.compile(text)
    if problems := undefined_fields(text, expression.syntax, variables):
        raise CelSyntaxError("\n".join(problems))
    return environment.converting(expression, conversions(expression.syntax, variables))


def _validate(node: _Node, value: Any, old: Any, path: str, anchor: tuple[Any, Any] | None, out: _Causes) -> None:
    """`anchor` is the nearest value, this or around it, whose old counterpart is known."""
    if value is None:
        return
    if node.rules:
        _evaluate(node, value, old, path, anchor, out)
    if type(value) is dict:
        _validate_object(node, value, old if type(old) is dict else None, path, anchor, out)
    elif type(value) is list and node.items is not None:
        keys = node.schema.list_keys if node.schema.list_type == "map" else ()
        former = {_key(element, keys): element for element in old} if keys and type(old) is list else {}
        for index, element in enumerate(value):
            old_element = former.get(_key(element, keys)) if keys else None
            below = (element, old_element) if old_element is not None else anchor
            _validate(node.items, element, old_element, f"{path}[{index}]", below, out)


def _validate_object(
    node: _Node,
    value: Object,
    old: Object | None,
    path: str,
    anchor: tuple[Any, Any] | None,
    out: _Causes,
) -> None:
    for name, child in value.items():
        below = node.properties.get(name)
        if below is not None:
            child_path = f"{path}.{name}" if path else name
        elif node.additional is not None and name not in node.schema.properties:
            below, child_path = node.additional, f"{path}[{name}]"
        else:
            continue
        old_child = old.get(name) if old is not None else None
        _validate(below, child, old_child, child_path, (child, old_child) if old is not None else anchor, out)


def _key(element: Any, keys: tuple[str, ...]) -> str:
    return go_value([element.get(key) for key in keys]) if type(element) is dict else ""


def _evaluate(node: _Node, value: Any, old: Any, path: str, anchor: tuple[Any, Any] | None, out: _Causes) -> None:
    environment = node.environment
    if environment is None:
        return
    if monotonic() > out.end:
        why = "validation failed due to running out of cost budget, no further validation rules will be run"
        raise _Over(invalid_value(path or "<nil>", node.type_name, why))
    variables = {"self": value if node.view is None else node.view(value)}
    if old is not None:
        variables["oldSelf"] = old if node.old_view is None else node.old_view(old)
    activation = environment.activation(variables)
    together = node.at_create if old is None else node.at_update
    if together is not None and _holds(together, activation):
        return
    shown = path or "<nil>"
    for rule in node.rules:
        program = rule.program
        if rule.error:
            out.append(invalid_value(shown, node.type_name, f"rule compile error: {rule.error}"))
            continue
        if program is None:
            continue
        if old is None and rule.uses_old:
            if not rule.optional_old:
                continue
            program = rule.without_old or program
        try:
            holds = program.evaluate(activation)
        except CelBudgetExceeded as error:
            why = f"{error}: no further validation rules will be run due to call cost exceeding limit for rule"
            raise _Over(invalid_value(shown, node.type_name, f"{why}: {rule.title}")) from None
        except CelRuntimeError as error:
            out.append(invalid_value(shown, node.type_name, _failure(str(error), rule)))
            continue
        if holds is True:
            continue
        if not rule.uses_old and anchor is not None and anchor[1] is not None and anchor[0] == anchor[1]:
            continue
        place = path
        if rule.field_path:
            separator = "." if path and not rule.field_path.startswith("[") else ""
            place = path + separator + rule.field_path
        detail = _message(rule, activation) or rule.default_message
        out.append(_cause(rule, place or "<nil>", value, node.type_name, detail))


def _holds(program: Expression, activation: Any) -> bool:
    try:
        return program.evaluate(activation) is True
    except CelRuntimeError:
        return False


def _failure(error: str, rule: Rule) -> str:
    if error.startswith("no such overload"):
        words = "call arguments did not match a supported operator, function or macro signature for rule"
        return f"'{error}': {words}: {rule.title}"
    return f"{error} evaluating rule: {rule.title}"


def _message(rule: Rule, activation: Any) -> str:
    """The message that the rule's messageExpression gives; empty where it fails or gives no usable one."""
    if rule.message is None:
        return ""
    try:
        message = rule.message.evaluate(activation)
    except CelRuntimeError:
        return ""
    message = message.strip() if isinstance(message, str) else ""
    return "" if len(message.encode()) > _MAX_MESSAGE or "\n" in message else message


def _cause(rule: Rule, path: str, value: Any, type_name: str, detail: str) -> Cause:
    plain = type_name not in ("object", "array")
    match rule.source.get("reason"):
        case "FieldValueForbidden":
            return field_forbidden(path, detail)
        case "FieldValueRequired":
            return required(path, detail)
        case "FieldValueDuplicate":
            return duplicate(path, value) if plain else Cause(path, "FieldValueDuplicate", "Duplicate value")
    return invalid_value(path, value, detail) if plain else Cause(path, "FieldValueInvalid", f"Invalid value: {detail}")


def rule_check(schema: Mapping[str, Any], path: str, uncorrelatable: str, root: bool) -> list[Cause]:
    """What is wrong with the rules of one schema node of a CRD."""
    causes = []
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    for index, rule in enumerate(rules_of(read_schema(schema), root or embedded)):
        place = f"{path}.x-kubernetes-validations[{index}]"
        if rule.error:
            causes.append(_refused(f"{place}.rule", rule.source, rule.error))
        if rule.message_error:
            causes.append(_refused(f"{place}.messageExpression", rule.source, rule.message_error))
        if rule.uses_old:
            if uncorrelatable:
                text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelatable}"
                causes.append(invalid_value(f"{place}.rule", rule.source["rule"], text))
        elif rule.source.get("optionalOldSelf") is not None and not rule.error:
            text = "may not be set if oldSelf is not used in rule"
            causes.append(invalid_value(f"{place}.optionalOldSelf", rule.source["optionalOldSelf"], text))
    return causes


def _refused(path: str, rule: Object, detail: str) -> Cause:
    """Kubernetes shows the rule as its internal type prints it."""
    shown = {
        "Rule": rule.get("rule", ""), "Message": rule.get("message", ""),
        "MessageExpression": rule.get("messageExpression", ""), "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath", ""), "OptionalOldSelf": rule.get("optionalOldSelf"),
    }  # fmt: skip
    fields = ",".join(f'"{name}":{_json(value)}' for name, value in shown.items())
    return Cause(path, "FieldValueInvalid", f"Invalid value: {{{fields}}}: {detail}")


def _json(value: Any) -> str:
    return go_value([value])[1:-1]


def default_check(node: Node, default: Any, path: str, root: bool) -> list[Cause]:
    """What the rules of a schema node say to its default, both as an unchanged and as a new value."""
    validator = compile_validator(node, resource=root)
    if validator is None:
        return []
    return validator.validate(default, default, path) or validator.validate(default, None, path)
