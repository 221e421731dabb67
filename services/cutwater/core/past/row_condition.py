"""A condition over one row, as in `flights > 5 and mean is not null`, as in SQL.

Numbers, measures and arithmetic are those of derived values (`core.job.derived_values`). They are compared by
`= != <> < <= > >=` and joined by `and or not`. A measure of texts, times or booleans is compared with one text,
such as 'JFK', 'O''Hare' or '2026-01-31T00:00:00Z', as the row shows it. Null compared with anything is neither
true nor false, and a row that is not there has no measure.
"""

from __future__ import annotations

import ast
import operator
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from cutwater.core.errors import UsageError
from cutwater.core.job.derived_values import TEXT_MAX, derived_measure
from cutwater.core.job.job import Job
from cutwater.core.job.measures import NUMBERS, Measure
from cutwater.core.util.suggestions import closest, listed, value_text

Values = Mapping[str, Any]
"""The values of a row by measure, as users see them; empty for a row that is not there."""
Condition = Callable[[Values], bool]
_Ternary = Callable[[Values], bool | None]
_DEPTH_MAX = 50
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_TEXT = r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\""
_TOKENS = re.compile(rf"{_TEXT}|[A-Za-z_]\w*|<>|[<>!=]=|=|.", re.DOTALL)
_PAIR = re.compile(r"\\.|''|\"\"", re.DOTALL)
"""An escape, or a quote within a text."""
_WORDS = {"and": "and", "or": "or", "not": "not", "is": "is", "null": "None", "true": "True", "false": "False"}
_SIGNS = {"=": "==", "<>": "!="}
_ALLOWED = (
    "allowed: measures, numbers, texts in quotes, + - * /, = != < <= > >=, is null, and, or, not, parentheses"
)


def row_condition(text: str, job: Job) -> Condition:
    """Return the condition. Raises UsageError if the text is none, or names no measure of the job."""
    if len(text) > TEXT_MAX:
        raise UsageError(f"the condition has {len(text)} characters; allowed: {TEXT_MAX}")
    measures = {one.name: _shown(one) for one in job.measures}
    source = "".join(_translated(one, measures) for one in _TOKENS.findall(text.strip()))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            node = ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise UsageError(f"{value_text(text)} is no condition; {_ALLOWED}") from None
    holds = _Translator(source, measures).condition(node, 0)
    return lambda row: holds(row) is True


def _shown(measure: Measure) -> Measure:
    """Return the measure of rows that hold its value in the place of its partials."""
    name = measure.name
    return replace(measure, present=lambda row: row.get(name))


def _translated(token: str, measures: Mapping[str, Measure]) -> str:
    """Return SQL's words and signs as Python's. A measure may have the name of a word."""
    if token in measures:
        return token
    if len(token) > 1 and token[0] in "'\"":
        # Python would join two texts where SQL means one quote.
        quote = token[0]
        inside = _PAIR.sub(lambda found: f"\\{quote}" if found[0] == 2 * quote else found[0], token[1:-1])
        return f"{quote}{inside}{quote}"
    return _WORDS.get(token.lower(), _SIGNS.get(token, token))


class _Translator:
    def __init__(self, source: str, measures: Mapping[str, Measure]) -> None:
        self._source, self._measures = source, measures

    def condition(self, node: ast.expr, depth: int) -> _Ternary:
        if depth > _DEPTH_MAX:
            raise UsageError(f"the condition has more than {_DEPTH_MAX} levels")
        if isinstance(node, ast.BoolOp):
            parts = [self.condition(one, depth + 1) for one in node.values]
            return _all(parts) if isinstance(node.op, ast.And) else _any(parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return _not(self.condition(node.operand, depth + 1))
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            pairs = zip(sides, node.ops, sides[1:], strict=False)
            return _all([self._comparison(*one) for one in pairs])
        if isinstance(node, ast.Name) and (measure := self._measures.get(node.id)) and measure.output == "boolean":
            return measure.present
        raise self._refusal(node)

    def _comparison(self, left: ast.expr, sign: ast.cmpop, right: ast.expr) -> _Ternary:
        if isinstance(sign, ast.Is | ast.IsNot):
            if not (isinstance(right, ast.Constant) and right.value is None):
                raise self._refusal(right)
            value, negated = self._value(left), isinstance(sign, ast.IsNot)
            return lambda row: (value(row) is None) is not negated
        if type(sign) not in _COMPARISONS:
            raise UsageError(f"a comparison is not allowed; {_ALLOWED}")
        one, two = self._value(left), self._value(right)
        if self._is_text(left) != self._is_text(right):
            raise UsageError(
                f"{value_text(self._text(left))} and {value_text(self._text(right))} are not of one type: write "
                "texts, times and booleans in quotes, numbers without"
            )
        return _compare(_COMPARISONS[type(sign)], one, two)

    def _value(self, node: ast.expr) -> Callable[[Values], Any]:
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bool):
            text = _text_of(node.value)
            return lambda _row: text
        if isinstance(node, ast.Name) and node.id in self._measures and not _is_number(self._measures[node.id]):
            present = self._measures[node.id].present
            return lambda row: _text_of(present(row))
        if isinstance(node, ast.Name) and node.id not in self._measures:
            meant = closest(node.id, self._measures)
            advice = f"; did you mean '{meant}'?" if meant else ""
            raise UsageError(f"{value_text(node.id)} is no measure of the job: {listed(self._measures)}{advice}")
        return derived_measure("condition", self._text(node), self._measures).present

    def _is_text(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Constant):
            return isinstance(node.value, str | bool)
        return isinstance(node, ast.Name) and not _is_number(self._measures[node.id])

    def _text(self, node: ast.expr) -> str:
        return ast.get_source_segment(self._source, node) or self._source

    def _refusal(self, node: ast.expr) -> UsageError:
        return UsageError(f"{value_text(self._text(node))} is not allowed in a condition; {_ALLOWED}")


def _is_number(measure: Measure) -> bool:
    kind = measure.output.get("logicalType", "list") if isinstance(measure.output, dict) else measure.output
    return kind in NUMBERS


def _text_of(value: Any) -> str | None:
    """Return a value as a row shows it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat().replace("+00:00", "Z") if hasattr(value, "isoformat") else str(value)


def _compare(
    holds: Callable[[Any, Any], bool], one: Callable[[Values], Any], two: Callable[[Values], Any]
) -> _Ternary:
    def compared(row: Values) -> bool | None:
        left, right = one(row), two(row)
        return None if left is None or right is None else bool(holds(left, right))

    return compared


def _all(parts: list[_Ternary]) -> _Ternary:
    def every(row: Values) -> bool | None:
        found = [one(row) for one in parts]
        return False if False in found else None if None in found else True

    return every


def _any(parts: list[_Ternary]) -> _Ternary:
    def some(row: Values) -> bool | None:
        found = [one(row) for one in parts]
        return True if True in found else None if None in found else False

    return some


def _not(part: _Ternary) -> _Ternary:
    def negated(row: Values) -> bool | None:
        found = part(row)
        return None if found is None else not found

    return negated
