"""What the plan of a user's function may hold: about one event, the same each time, at most one row of each."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from cutwater.core.errors import UsageError
from cutwater_spark.plans.catalyst import KEEPS, items
from cutwater_spark.plans.expression_rules import class_of, nodes, wrong_value

_UDF = re.compile(r"UDF|UDAF|UserDefined")
_PYTHON = re.compile(r"Python|Pandas|InArrow")
_STATIC = frozenset({"LocalRelation", "Project", "Filter", "SubqueryAlias", "ResolvedHint", "View"})
_JOINS = ("Inner", "LeftOuter", "LeftSemi", "LeftAnti")
_DO = {
    "Generate": "it makes several rows of an event: use source.explode",
    "Sort": "events have their own order, by which 'first' and 'last' go: leave it out",
    "Window": "it needs other events beside an event: aggregates belong to 'measures'",
    "Union": "it makes several rows of an event: use source.explode, or coalesce() of columns",
    "Expand": "it makes several rows of an event: use source.explode",
}
_TABLE = "name the table's file in source.transform.tables; the function is given it by name"


def refuse(node: Any) -> str:
    """Return why an operator that the events go through is refused."""
    kind = str(node.nodeName())
    if kind in _DO:
        return f"its plan has the operator {kind}: {_DO[kind]}"
    if _PYTHON.search(kind) or kind in ("MapElements", "MapPartitions"):
        return f"its plan has the operator {kind}, which runs code for each row: use Spark's own functions"
    if kind in KEEPS:
        text = "it needs other events beside an event, and keeps"
        return f"its plan has the operator {kind}: {text} {KEEPS[kind]}. Aggregates belong to 'measures'"
    if node.children().isEmpty():
        return f"its result is not made of the events, but of {kind}: begin with its first argument"
    return f"its plan has the operator {kind}; allowed: select, where, and a join with a table"


def check_expression(root: Any) -> None:
    """Raise UsageError for an expression that is not about one event, or not the same each time."""
    for one, _ in nodes(root):
        if _UDF.search(class_of(one)):
            text = f"uses {one.sql()}, a function of your own that runs for each row"
            raise UsageError(f"{text}: use Spark's own functions")
    if wrong := wrong_value(root):
        raise UsageError(f"{root.sql():.200} {wrong}")


def check_join(node: Any, events: Any) -> None:
    """Raise UsageError for a join that could lose or multiply events, other than by a repeated key.

    `events`: the plan that the function is given.
    """
    kind = str(node.joinType().toString())
    if _has(node.right(), events):
        if _has(node.left(), events):
            raise UsageError(f"it joins the events with events, and so keeps {KEEPS['Join']}: {_TABLE}")
        raise UsageError("a join has the events on its right: write events.join(table, ...)")
    if kind not in _JOINS:
        text = f"a join of kind {kind} may make several rows of an event, or rows of none"
        raise UsageError(f"{text}; allowed: inner, left, left_semi, left_anti")
    _keys(node)


def check_static(spark: SparkSession, node: Any, distinct: bool) -> DataFrame:
    """Return the table of a join, computed once. Raise UsageError if it is none of the job file, or repeats a key.

    `distinct`: its keys alone are needed, each once.
    """
    plan = node.right()
    for one, _ in nodes(plan):
        kind = str(one.nodeName())
        if kind not in _STATIC:
            raise UsageError(
                f"a joined table has the operator {kind}: {_TABLE}, and only select and where change it"
            )
        for expression in items(one.expressions()) if kind != "LocalRelation" else ():
            check_expression(expression)
    java: Any = spark._jvm
    table = DataFrame(java.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan), spark)
    names, keys = [f"c{at}" for at in range(len(table.columns))], _keys(node)
    ids = {key.exprId().toString() for key in keys}
    at_key = [
        named for named, one in zip(names, items(plan.output()), strict=True) if one.exprId().toString() in ids
    ]
    plain = table.toDF(*names)
    if distinct:
        plain = plain.dropDuplicates(at_key)
    else:
        twice = plain.where(" and ".join(f"{one} is not null" for one in at_key)).groupBy(*at_key).count()
        if found := twice.where("count > 1").drop("count").head():
            shown = ", ".join(f"{key.name()}={value!r}" for key, value in zip(keys, found, strict=True))
            text = f"a joined table has several rows with {shown}, so the join would count an event several times"
            raise UsageError(f"{text}: join by the table's key, or correct its file")
    rows: Any = plain._jdf.collectAsList()
    data = java.PythonUtils.toSeq(rows)
    relation = java.org.apache.spark.sql.catalyst.plans.logical.LocalRelation.fromExternalRows(plan.output(), data)
    return DataFrame(java.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, relation), spark)


def _has(plan: Any, events: Any) -> bool:
    # By result: of a join of the events with themselves one side has other identifiers.
    return any(one.sameResult(events) for one, _ in nodes(plan))


def _keys(node: Any) -> list[Any]:
    """Return the columns of the table by which a join goes, in the table's order. Raise UsageError for another
    condition than equal columns."""
    of_table = node.right().outputSet()
    waiting = items(node.condition().toList())
    if not waiting:
        raise UsageError("a join has no condition, and would make several rows of an event: give the table's key")
    found = {}
    while waiting:
        one = waiting.pop()
        sides = [one.left(), one.right()] if class_of(one) in ("And", "EqualTo") else []
        if class_of(one) == "And":
            waiting += sides
            continue
        columns = [side for side in sides if class_of(side) == "AttributeReference"]
        of = [side for side in columns if of_table.contains(side)]
        if len(columns) != 2 or len(of) != 1:
            text = f"a join has the condition {one.sql()}; only a column of the events may equal one of the table"
            raise UsageError(
                f"{text}, of the same type. Compute or cast the column before, filter before or after"
            )
        found[of[0].exprId().toString()] = of[0]
    order = [one.exprId().toString() for one in items(node.right().output())]
    return [found[one] for one in sorted(found, key=order.index)]
