"""Whether the state of an attached query is its rows alone, told from Spark's plan.

A generation that starts from a milestone takes over the rows. Whatever else the query keeps would be lost: the
identifiers that a deduplication has seen, the events that a join waits for.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater_spark.plans.catalyst import KEEPS, items

_STATELESS = frozenset(
    {
        "CollectMetrics",
        "DeserializeToObject",
        "EventTimeWatermark",
        "Expand",
        "Filter",
        "Generate",
        "MapElements",
        "MapInArrow",
        "MapInPandas",
        "MapPartitions",
        "Project",
        "PythonMapInArrow",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "SerializeFromObject",
        "StreamingRelation",
        "StreamingRelationV2",
        "SubqueryAlias",
        "TypedFilter",
        "Union",
        "UpdateEventTimeWatermarkColumn",
        "View",
    }
)
"""Spark's operators that keep nothing from one epoch to the next. Any other operator is refused."""
_FUNCTIONS = {
    "sum": frozenset({"sum", "count", "count_if"}),
    "min": frozenset({"min", "every", "bool_and"}),
    "max": frozenset({"max", "any", "some", "bool_or"}),
}
"""Spark's aggregate functions by how their values over two sets of events merge."""


def require_movable(frame: DataFrame, job: Job) -> None:
    """Raise UsageError if a generation of this query could not continue from the rows of a milestone."""
    jvm: Any = frame._jdf
    plan, columns = jvm.queryExecution().analyzed(), {one.name: one.name for one in job.measures}
    while plan.nodeName() != "Aggregate":
        if plan.nodeName() == "Filter":
            raise UsageError(
                "a filter above the aggregation leaves out rows by their values, which after the start of a "
                "generation are only a part: with 'merges' filter events, below the aggregation"
            )
        if plan.nodeName() == "Project":
            columns = _below(plan.projectList(), columns)
        plan = plan.children().apply(0)
    _require_functions(plan.aggregateExpressions(), columns, job)
    _require_stateless(plan.children().apply(0))


def _below(listed: Any, columns: dict[str, str]) -> dict[str, str]:
    """Return the name that each column has below a projection."""
    found = {}
    for one in items(listed):
        source = one.child() if one.nodeName() == "Alias" else one
        found[one.name().lower()] = source.name() if source.nodeName() == "AttributeReference" else ""
    made = {column: found.get(name.lower(), "") for column, name in columns.items()}
    for column, name in made.items():
        if not name:
            raise UsageError(
                f"column '{column}' is computed from the aggregation's columns, so its values do not merge: "
                "with 'merges' select the sums, minima and maxima that it is computed from"
            )
    return made


def _require_functions(listed: Any, columns: dict[str, str], job: Job) -> None:
    functions = {}
    for one in items(listed):
        functions[one.name().lower()] = one.child() if one.nodeName() == "Alias" else one
    for measure in job.measures:
        made, how = functions[columns[measure.name].lower()], measure.merges_by
        if made.nodeName() != "AggregateExpression" or made.isDistinct():
            raise UsageError(
                f"column '{measure.name}' is {made.sql()}, of which two values do not merge: with 'merges' each "
                "column is one aggregate function of the events, such as sum(...), without DISTINCT"
            )
        function = made.aggregateFunction().prettyName()
        if function not in _FUNCTIONS[how]:
            fit = next((one for one, of in _FUNCTIONS.items() if function in of), "")
            advice = f"say {measure.name}: {fit}" if fit else "leave the column out, or leave out 'merges'"
            raise UsageError(
                f"column '{measure.name}' is {made.sql()}, which does not merge by {how} as attached.merges says: "
                f"{advice}"
            )


def _require_stateless(plan: Any) -> None:
    if not plan.isStreaming():
        return  # a static table
    children, kind = items(plan.children()), plan.nodeName()
    joins_static = kind == "Join" and sum(1 for one in children if one.isStreaming()) == 1
    if kind not in _STATELESS and not joins_static:
        kept = KEEPS.get(kind, "what its operator keeps from one epoch to the next")
        raise UsageError(
            f"below its aggregation the query has the operator {kind}, whose state is in no milestone: {kept}. "
            "With 'merges' a query must be stateless there. Do this step in another query before, or leave out "
            "'merges': then no generation starts from a milestone"
        )
    for one in children:
        _require_stateless(one)
