"""Parts of Spark's plans that its Python interface lacks: tried expressions, what operators keep, sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn

KEEPS = {
    "Aggregate": "the groups of an aggregation below the last one",
    "Deduplicate": "the events that were seen",
    "DeduplicateWithinWatermark": "the events that were seen",
    "Distinct": "the rows that were seen",
    "GlobalLimit": "the number of rows that were taken",
    "Join": "the events of both streams that wait for each other",
    "LocalLimit": "the number of rows that were taken",
}
"""What Spark's operators keep from one epoch to the next, of a stream."""


def tried(spark: SparkSession, branch: Column) -> Column:
    """Return a branch of a condition, NULL after an error.

    It must be one, and the condition not constant: Spark computes an expression that occurs twice beforehand,
    outside of what tries it, unless it is in a branch.
    """
    java: Any = spark._jvm
    of: Any = branch
    made = java.org.apache.spark.sql.catalyst.expressions.TryEval(internals(spark).expression(of._jc))
    return ClassicColumn(internals(spark).column(made))


def internals(spark: SparkSession) -> Any:
    """Return what makes columns of expressions, and expressions of columns."""
    java: Any = spark._jvm
    return java.org.apache.spark.sql.classic.ExpressionUtils


def items(found: Any) -> list[Any]:
    """Return the items of a sequence of Scala's."""
    return [found.apply(at) for at in range(found.size())]


def sequence(spark: SparkSession, of: Sequence[Any]) -> Any:
    """Return a sequence of Scala's."""
    java: Any = spark._jvm
    return java.PythonUtils.toSeq(list(of))
