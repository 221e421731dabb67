"""Derived values that Spark computes, because a measure that they read is in no row.

A measure of `kept: state` is in Spark's state only: its partials are on no changelog. A derived value that reads
one is stored: the driver computes it from the aggregates, and rows have it as one double. The expression is the
same as of other derived values (`core.job.derived_values`), here as Spark's SQL.

A stored value cannot be merged, and a row does not tell what it was computed from. So after the start of a
generation it is exact or null: a row that takes no more events keeps it, a row whose first event came after the
parent milestone has it, and a row that has events of before and after has it only if those of before were counted
once more (`core.generations.recount`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from cutwater.core.errors import UsageError
from cutwater.core.job.derived_values import DERIVED, derived_measure, parse_expression
from cutwater.core.job.measures import SEED, STORED, THETA, Measure, Partial, seed_of
from cutwater.core.util.suggestions import value_text

WHOLE = "__whole"
"""A seed's column beside its partials: whether those of the measures in state are of all events of the row."""
SQL_MAX = 100_000
"""Characters of one stored value in Spark's SQL: a short expression may name a measure often."""

_OPERATORS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}


Aggregate = Callable[[Partial], str]
"""Returns a partial's SQL: over events alone, or over events and seeds."""


def _plain(measure: Measure, sql: Aggregate) -> str:
    [partial] = measure.partials
    return sql(partial)


def _average(measure: Measure, sql: Aggregate) -> str:
    total, count = (f"cast({sql(partial)} as double)" for partial in measure.partials)
    return f"try_divide({total}, {count})"


def _distinct(measure: Measure, sql: Aggregate) -> str:
    sketch = "theta" if measure.sketch == THETA else "hll"
    return f"coalesce({sketch}_sketch_estimate({_plain(measure, sql)}), 0L)"


def _positioned(measure: Measure, sql: Aggregate) -> str:
    return f"({_plain(measure, sql)}).value"


_VALUES: dict[str, Callable[[Measure, Aggregate], str]] = {
    **dict.fromkeys(("count", "sum", "min", "max"), _plain),
    **dict.fromkeys(("first", "last", "min_by", "max_by"), _positioned),
    "avg": _average,
    "distinct": _distinct,
}
"""What users see of a measure, as Spark's SQL."""


def stored_measure(name: str, text: str, measures: Mapping[str, Measure]) -> Measure:
    """Return the measure of an expression of which some operands are in no row. Raises UsageError if it is not
    one, or Spark cannot compute it as readers would."""
    derived_measure(name, text, measures)  # refuses what no derived value may have
    tree = parse_expression(text)
    translator, both = (_Sql(measures, of) for of in (_over_events, _over_both))
    events = translator.translate(tree)
    over_both = _with_seeds(name, events, both.translate(tree))
    partial = Partial(name, "double", events, over_both, _no_merge, mergeable=False)
    if len(over_both) > SQL_MAX:
        raise UsageError(
            f"has {len(over_both):,} characters as Spark's SQL, where each name stands for its aggregate; "
            f"allowed: {SQL_MAX:,}. Name fewer measures"
        )
    inputs = {part.column: part for one in translator.used.values() for part in one.partials}
    return Measure(name, STORED, (partial,), lambda row: row[name], "double", inputs=tuple(inputs.values()))


def require_computable(measure: Measure) -> None:
    """Raise UsageError if Spark cannot compute what users see of a measure as readers do."""
    if measure.kind in (DERIVED, STORED):
        raise UsageError(
            f"{value_text(measure.name)} is a derived value, which Spark cannot read here, since a measure of the "
            "expression is kept in state: write its expression in place of its name"
        )
    scaled = measure.kind == "avg" and measure.output != "double"
    if measure.kind not in _VALUES or scaled:
        what = "an average with a scale" if scaled else f"a {measure.kind}"
        raise UsageError(
            f"measure {value_text(measure.name)} is {what}, of which Spark does not compute what users see; a "
            f"measure of the expression is kept in state, so allowed: {', '.join(sorted(_VALUES))}"
        )


def _over_events(partial: Partial) -> str:
    return partial.over_events


def _over_both(partial: Partial) -> str:
    return partial.over_both


def _with_seeds(name: str, events: str, both: str) -> str:
    """Return SQL for the value of a row that may have a seed: what it has of the events before may not be all."""
    return (
        f"case when count(`{SEED}`) = 0 then {events} when count(`__event_time`) = 0 then max({seed_of(name)}) "
        f"when max({seed_of(WHOLE)}) then {both} end"
    )


def _no_merge(_one: Any, _other: Any) -> None:
    """Return None: nobody knows the value of two rows together."""


class _Sql:
    def __init__(self, measures: Mapping[str, Measure], sql: Aggregate) -> None:
        self._measures, self._sql = measures, sql
        self.used: dict[str, Measure] = {}

    def translate(self, node: ast.expr) -> str:
        """Return SQL for a node that `derived_measure` has accepted: a double, NULL where that has no value."""
        if isinstance(node, ast.Constant):
            return f"{float(node.value)!r}D"  # type: ignore[arg-type]
        if isinstance(node, ast.Name):
            return self._measure(node.id)
        if isinstance(node, ast.UnaryOp):
            sign = "-" if isinstance(node.op, ast.USub) else "+"
            return f"({sign} {self.translate(node.operand)})"
        if isinstance(node, ast.BinOp):
            left, right = self.translate(node.left), self.translate(node.right)
            if isinstance(node.op, ast.Div):
                return f"try_divide({left}, {right})"
            return f"({left} {_OPERATORS[type(node.op)]} {right})"
        if isinstance(node, ast.Call):
            return self._call(node)
        raise UsageError(f"{value_text(ast.unparse(node))} is not allowed")

    def _measure(self, name: str) -> str:
        measure = self._measures[name]
        require_computable(measure)
        self.used[name] = measure
        return f"cast({_VALUES[measure.kind](measure, self._sql)} as double)"

    def _call(self, node: ast.Call) -> str:
        name = ast.unparse(node.func)
        if name == "round":
            digits = ast.unparse(node.args[1]) if len(node.args) > 1 else "0"
            return f"round({self.translate(node.args[0])}, {digits})"
        operands = [self.translate(one) for one in node.args]
        if name in ("min", "max"):
            return _extreme(name, operands)
        return f"{name}({', '.join(operands)})"


def _extreme(name: str, operands: list[str]) -> str:
    """Return SQL for the least or greatest operand, NULL if one is: Spark's own functions leave nulls out."""
    if len(operands) == 1:
        return operands[0]
    values = f"array(array({', '.join(operands)}))"
    chosen = f"if(exists(v, x -> x is null), null, array_{name}(v))"
    return f"element_at(transform({values}, v -> {chosen}), 1)"
