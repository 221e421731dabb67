"""Values computed from a row's measures, as in `miles / hours`.

The text is parsed by Python's parser, and each node of it is translated to a function. Whatever is not listed here
is refused, and nothing of the text is ever run. Operands become doubles, and so does the result. It is null if an
operand is null, or a divisor is zero.
"""

from __future__ import annotations

import ast
import math
import operator
import warnings
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import NamedTuple

from cutwater.core.errors import UsageError
from cutwater.core.job.measures import NUMBERS, Measure, Partials, spark_order
from cutwater.core.util.suggestions import closest, listed, value_text

TEXT_MAX, DEPTH_MAX, DIGITS_MAX = 500, 100, 15
DERIVED = "derived"
"""The kind of a derived value."""

Number = float | None
Compute = Callable[[Partials], Number]


class _Function(NamedTuple):
    compute: Callable[..., Number]
    least: int
    most: int | None
    takes_null: bool = False


def _round(value: float, digits: float = 0.0) -> float:
    """Round half away from zero, by the shortest text of the number: 0.285 is 0.29, as a person rounds."""
    if not math.isfinite(value):
        return value
    return float(Decimal(repr(value)).quantize(Decimal(1).scaleb(-int(digits)), ROUND_HALF_UP, _WIDE))


def _least(*values: float) -> float:
    return min(values, key=spark_order)


def _greatest(*values: float) -> float:
    return max(values, key=spark_order)


def _first_known(*values: Number) -> Number:
    return next((one for one in values if one is not None), None)


def _quotient(one: float, other: float) -> Number:
    return one / other if other else None


_WIDE = Context(prec=400)
"""A double has up to 309 digits before the point."""
_OPERATORS: dict[type[ast.operator], Callable[[float, float], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _quotient,
}
_FUNCTIONS = {
    "min": _Function(_least, 1, None),
    "max": _Function(_greatest, 1, None),
    "coalesce": _Function(_first_known, 1, None, takes_null=True),
    "abs": _Function(abs, 1, 1),
    "round": _Function(_round, 1, 2),
}
_ALLOWED = f"allowed: numbers, names of measures, + - * /, parentheses, {', '.join(_FUNCTIONS)}"


def derived_measure(name: str, text: str, measures: Mapping[str, Measure]) -> Measure:
    """Return the measure of an expression over others. Raises UsageError if it is not one."""
    translator = _Translator(text, measures)
    compute = translator.translate(parse_expression(text), 0)
    columns = [column for one in translator.used.values() for column in columns_of(one)]
    return Measure(name, DERIVED, (), compute, "double", reads=tuple(dict.fromkeys(columns)))


def columns_of(measure: Measure) -> tuple[str, ...]:
    """Return the columns of the partials that a measure's value is computed from."""
    return measure.reads or tuple(one.column for one in measure.partials)


def names_in(text: str) -> set[str]:
    """Return the names in an expression; none if it is not one."""
    try:
        return {one.id for one in ast.walk(parse_expression(text)) if isinstance(one, ast.Name)}
    except UsageError:
        return set()


def parse_expression(text: str) -> ast.expr:
    """Return the tree of an expression. Raises UsageError if it is none."""
    if len(text) > TEXT_MAX:
        raise UsageError(f"has {len(text)} characters; allowed: {TEXT_MAX}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise UsageError(f"{value_text(text)} is not an expression; {_ALLOWED}") from None


class _Translator:
    def __init__(self, text: str, measures: Mapping[str, Measure]) -> None:
        self._measures = measures
        self._text = text.strip()
        self.used: dict[str, Measure] = {}

    def translate(self, node: ast.expr, depth: int) -> Compute:
        if depth > DEPTH_MAX:
            raise UsageError(f"has more than {DEPTH_MAX} levels of operations")
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and type(node.value) is not bool:
            return _constant(node.value)
        if isinstance(node, ast.Name):
            return self._measure(node.id)
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            sign = operator.neg if isinstance(node.op, ast.USub) else operator.pos
            return _apply(sign, [self.translate(node.operand, depth + 1)])
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            sides = [self.translate(one, depth + 1) for one in (node.left, node.right)]
            return _apply(_OPERATORS[type(node.op)], sides)
        raise self._refusal(node)

    def _refusal(self, node: ast.expr) -> UsageError:
        part = ast.get_source_segment(self._text, node) or self._text
        return UsageError(f"{value_text(part)} is not allowed; {_ALLOWED}")

    def _measure(self, name: str) -> Compute:
        found = self._measures.get(name)
        if found is None:
            meant = closest(name, self._measures)
            advice = f"; did you mean '{meant}'?" if meant else ""
            raise UsageError(f"{value_text(name)} is no measure of the job: {listed(self._measures)}{advice}")
        kind = found.output.get("logicalType", "list") if isinstance(found.output, dict) else found.output
        if kind not in NUMBERS:
            raise UsageError(f"measure {value_text(name)} is no number but a {kind}")
        self.used[name] = found

        def value(row: Partials) -> Number:
            presented = found.present(row)
            return None if presented is None else float(presented)

        return value

    def _call(self, node: ast.Call, depth: int) -> Compute:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in _FUNCTIONS or node.keywords:
            raise self._refusal(node)
        function, count = _FUNCTIONS[name], len(node.args)
        if count < function.least or (function.most is not None and count > function.most):
            most = "or more" if function.most is None else f"to {function.most}"
            raise UsageError(f"{name} has {count} operands; allowed: {function.least} {most}")
        if name == "round" and count > 1:
            digits = node.args[1].value if isinstance(node.args[1], ast.Constant) else None
            if type(digits) is not int or digits > DIGITS_MAX:
                raise UsageError(f"round: the digits are a number from 0 to {DIGITS_MAX}")
        operands = [self.translate(one, depth + 1) for one in node.args]
        return _apply(function.compute, operands, function.takes_null)


def _constant(number: float) -> Compute:
    try:
        value = float(number)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise UsageError("a number is too large for a double")
    return lambda _row: value


def _apply(function: Callable[..., Number], operands: list[Compute], takes_null: bool = False) -> Compute:
    def compute(row: Partials) -> Number:
        values = [one(row) for one in operands]
        return None if not takes_null and None in values else function(*values)

    return compute
