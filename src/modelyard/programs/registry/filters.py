"""Filters as SQL: every comparison becomes a condition on one row, so that no object can come back twice."""

from __future__ import annotations

from collections.abc import Sequence

from modelyard.programs.database.session import Dialect, Value, placeholders
from modelyard.programs.filter_query import (
    Both,
    Comparison,
    FieldType,
    FilterError,
    Operator,
    PatternPart,
    Query,
    Scalar,
    check_custom,
    pattern_parts,
    typed,
)
from modelyard.programs.registry.kinds import Kind
from modelyard.programs.registry.store import Condition, Store
from modelyard.programs.registry.values import BOOLEAN, DOUBLE, INTEGER, STRING

_COLUMNS = {
    "id": ("id", FieldType.ID),
    "name": ("name", FieldType.STRING),
    "externalId": ("external_id", FieldType.STRING),
    "createTimeSinceEpoch": ("created", FieldType.ID),
    "lastUpdateTimeSinceEpoch": ("updated", FieldType.ID),
}
_TYPES = {"string_value": (STRING,), "int_value": (INTEGER,), "double_value": (DOUBLE,), "bool_value": (BOOLEAN,)}
_FEW = 2000
"""A condition with fewer matches is looked up first; with more, the list is walked and each row checked."""
_NARROW = 200
"""With fewer than this, the list begins there and checks everything else row by row."""
_LARGEST = 2**62


def compiled(query: Query, kinds: Sequence[Kind], store: Store, *, by_row: bool = False) -> Condition:
    """The condition on `e` that a filter means for a list of these kinds. `by_row`: another condition leaves few rows to check."""
    if isinstance(query, Comparison):
        return _Compiler(kinds, store, by_row).comparison(query)
    made: dict[int, Condition] = {}
    # Equality first: where it leaves few rows, nobody needs to know how many the other comparisons would.
    for place in sorted(range(len(query.terms)), key=lambda place: not _is_equality(query.terms[place])):
        made[place] = compiled(query.terms[place], kinds, store, by_row=by_row)
        by_row = by_row or (isinstance(query, Both) and made[place].narrow)
    parts = [made[place] for place in sorted(made)]
    word = "AND" if isinstance(query, Both) else "OR"
    parameters = tuple(parameter for part in parts for parameter in part.parameters)
    return Condition(_balanced([part.sql for part in parts], word), parameters)


def _is_equality(query: Query) -> bool:
    return isinstance(query, Comparison) and query.operator is Operator.EQUAL


def _balanced(conditions: list[str], word: str) -> str:
    """Joined in pairs of halves: databases limit the depth of an expression, and a plain chain is as deep as it is long."""
    if len(conditions) == 1:
        return conditions[0]
    if len(conditions) <= 8:
        return "(" + f" {word} ".join(conditions) + ")"
    middle = len(conditions) // 2
    return f"({_balanced(conditions[:middle], word)} {word} {_balanced(conditions[middle:], word)})"


class _Compiler:
    def __init__(self, kinds: Sequence[Kind], store: Store, by_row: bool) -> None:
        self._kinds = kinds
        self._by_row = by_row
        self._store = store
        self._dialect = store.dialect

    def comparison(self, comparison: Comparison) -> Condition:
        subject = comparison.subject
        free = subject.without("customProperties")
        if free is not None:
            return self._custom(Comparison(free, comparison.operator, comparison.values))
        if len(subject.parts) > 1:
            return self._custom(comparison)
        name = subject.name
        if name in _COLUMNS:
            column, field_type = _COLUMNS[name]
            return _compared(f"e.{column}", typed(comparison, field_type), self._dialect)
        parents = [kind for kind in self._kinds if kind.parent == name]
        if parents:
            return _compared("e.parent_id", typed(comparison, FieldType.ID), self._dialect)
        fields = self._field_types(name)
        if fields:
            return self._field(comparison, fields)
        return self._custom(comparison)

    def _field_types(self, name: str) -> list[FieldType]:
        """What the listed kinds hold under this name; kinds of one list may differ."""
        if name == "description":
            return [FieldType.STRING]
        found = [kind.by_field[name].holds.filter_type for kind in self._kinds if name in kind.by_field]
        return list(dict.fromkeys(each for each in found if each is not None))

    def _field(self, comparison: Comparison, fields: list[FieldType]) -> Condition:
        problem: FilterError | None = None
        for field_type in fields:
            try:
                fitting = typed(comparison, field_type)
            except FilterError as error:
                problem = problem or error
                continue
            column = "p.text" if field_type is FieldType.STRING else "p.number"
            return self._property(0, comparison.subject.name, [_compared(column, fitting, self._dialect)])
        assert problem is not None
        raise problem

    def _custom(self, comparison: Comparison) -> Condition:
        check_custom(comparison)
        subject = comparison.subject
        if subject.type == "array_value" or not comparison.values:
            return Condition("1 = 0")
        wanted = _TYPES.get(subject.type or "")
        tests = []
        for group, column, types in (
            (str, "p.text", (STRING,)),
            (bool, "p.number", (BOOLEAN,)),
            (float, "p.number", (INTEGER, DOUBLE)),
        ):
            values = tuple(value for value in comparison.values if _group(value) is group)
            if values:
                test = _compared(column, Comparison(subject, comparison.operator, values), self._dialect)
                kinds = ", ".join(str(number) for number in wanted or types)
                tests.append(Condition(f"{test.sql} AND p.type IN ({kinds})", test.parameters))
        return self._property(1, subject.name, tests)

    def _property(self, custom: int, name: str, tests: list[Condition]) -> Condition:
        """Objects that have a property row which passes one of the tests."""
        conditions = [self._property_test(custom, name, test) for test in tests]
        if len(conditions) == 1:
            return conditions[0]
        parameters = tuple(parameter for condition in conditions for parameter in condition.parameters)
        return Condition("(" + " OR ".join(condition.sql for condition in conditions) + ")", parameters)

    def _property_test(self, custom: int, name: str, test: Condition) -> Condition:
        table = self._kinds[0].family.properties
        stored = self._dialect.stored(name)
        numbers = [kind.number for kind in self._kinds]
        of_kinds = "p.kind = ?" if len(numbers) == 1 else f"p.kind IN ({placeholders(len(numbers))})"
        by_value = f"{of_kinds} AND p.custom = {custom} AND p.name = ? AND {test.sql}"
        value_parameters: tuple[Value, ...] = (*numbers, stored, *test.parameters)
        by_row = Condition(
            f"EXISTS (SELECT 1 FROM {table} p WHERE p.entity_id = e.id AND p.custom = {custom} AND p.name = ? AND {test.sql})",
            (stored, *test.parameters),
        )
        by_index = f"e.id IN (SELECT p.entity_id FROM {table} p WHERE {by_value})"
        if self._dialect.plans_by_statistics:
            return Condition(by_index, value_parameters)
        if self._by_row:
            return by_row
        matches = self._store.matches(table, by_value, value_parameters, _FEW)
        if matches == _FEW:
            return by_row
        return Condition(by_index, value_parameters, narrow=matches < _NARROW)


def _group(value: Scalar) -> type:
    if isinstance(value, bool):
        return bool
    return str if isinstance(value, str) else float


def _compared(column: str, comparison: Comparison, dialect: Dialect) -> Condition:
    """`column operator value` for a column whose type fits the values."""
    operator = comparison.operator
    if operator.is_pattern:
        assert isinstance(comparison.value, str)
        pattern = _canonical(comparison.value)
        sql, parameter = dialect.like(column, pattern, ignore_case=operator is Operator.ILIKE)
        return Condition(sql, (parameter,))
    values = [_parameter(value, dialect, column) for value in comparison.values]
    if operator is Operator.IN:
        if not values:
            return Condition("1 = 0")
        return _shortened(column, comparison, dialect, f"{column} IN ({placeholders(len(values))})", values)
    condition = f"{column} {'<>' if operator is Operator.NOT_EQUAL else operator.value} ?"
    if operator is Operator.EQUAL:
        return _shortened(column, comparison, dialect, condition, values)
    return Condition(condition, tuple(values))


def _shortened(column: str, comparison: Comparison, dialect: Dialect, condition: str, values: list[Value]) -> Condition:
    """PostgreSQL's index holds the beginning of a text only, and is used when the query names that beginning."""
    if column != "p.text" or dialect.name != "postgres":
        return Condition(condition, tuple(values))
    beginnings = [str(value)[:256] for value in comparison.values]
    listed = f"{dialect.indexed_text.format(column)} IN ({placeholders(len(beginnings))}) AND {condition}"
    return Condition(listed, (*beginnings, *values))


def _parameter(value: Scalar, dialect: Dialect, column: str) -> Value:
    if isinstance(value, str):
        return dialect.stored(value)
    if column == "p.number":
        return _float(value)
    return value if isinstance(value, int) and abs(value) < _LARGEST else _float(value)


def _float(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        return 1e308 if value > 0 else -1e308


def _canonical(pattern: str) -> str:
    """The pattern with an escape before each special character and nowhere else: databases disagree about other escapes."""
    return "".join(
        part.value if isinstance(part, PatternPart) else f"\\{part}" if part in "%_\\" else part
        for part in pattern_parts(pattern)
    )
