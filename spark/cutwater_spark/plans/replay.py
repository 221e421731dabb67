"""The user's plan, replayed so that no record is lost, multiplied or able to end the query.

A filter marks what it leaves out, an inner join what has no partner, and expressions are tried: an error marks the
record. So each record has one row above the function, as below it, and all counts stay counts of records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as ClassicColumn

from cutwater.core.errors import UsageError
from cutwater_spark.plans.catalyst import internals, items, sequence, tried
from cutwater_spark.plans.expression_rules import class_of
from cutwater_spark.plans.plan_rules import check_expression, check_join, check_static, refuse

_TRANSPARENT = frozenset({"SubqueryAlias", "View", "ResolvedHint"})
"""Operators that change no row."""
_PASSES = {"Inner": "is not null", "LeftSemi": "is not null", "LeftAnti": "is null"}
"""Kinds of join that leave events out, by the mark of a partner of those that stay."""


class Replay:
    def __init__(self, records: DataFrame, usable: str) -> None:
        """`usable`: a condition as SQL that is never null; expressions are evaluated for these records alone.

        It must not be constant: Spark would take away the branch that holds a tried expression together.
        """
        self.kept, self.failed = "__kept_0", "__failed_0"
        self.frame = records.selectExpr("*", f"{usable} as {self.kept}", f"false as {self.failed}")
        self._names = 0
        self._start: Any = None

    def begin(self, events: DataFrame) -> None:
        """Take a projection of the records as what the user's function is given."""
        self._start = _plan(events)
        self.frame = self._add(items(self._start.projectList()))

    def run(self, result: DataFrame) -> None:
        """Add all columns of the user's result. Raise UsageError for an operator or expression that is refused."""
        steps, node = [], _plan(result)
        while not node.equals(self._start):
            kind = str(node.nodeName())
            if kind in _TRANSPARENT or kind in ("Project", "Filter"):
                below = node.child()
            elif kind == "Join":
                check_join(node, self._start)
                below = node.left()
            else:
                raise UsageError(refuse(node))
            if kind not in _TRANSPARENT:
                steps.append((kind, node))
            node = below
        for kind, node in reversed(steps):
            {"Project": self._project, "Filter": self._filter, "Join": self._join}[kind](node)

    def _project(self, node: Any) -> None:
        added = [one for one in items(node.projectList()) if class_of(one) != "AttributeReference"]
        if not added:
            return
        for one in added:
            check_expression(one)
        done = self._try([one.child() for one in added])
        values = [F.col(f"{done}.v{at}") for at in range(len(added))]
        self.frame = self._add([self._with_child(one, value) for one, value in zip(added, values, strict=True)])

    def _filter(self, node: Any) -> None:
        check_expression(node.condition())
        done = self._try([node.condition()])
        self._keep(f"coalesce({done}.v0, false)")

    def _join(self, node: Any) -> None:
        kind, partner = str(node.joinType().toString()), self._new_name("partner")
        table = check_static(self.frame.sparkSession, node, distinct=kind in ("LeftSemi", "LeftAnti"))
        marked = F.broadcast(table.select("*", F.lit(True).alias(partner)))
        self.frame = self.frame.join(marked, column_of(*items(node.condition().toList())), "left")
        if kind in _PASSES:
            self._keep(f"{partner} {_PASSES[kind]}")

    def _try(self, expressions: Sequence[Any]) -> str:
        """Add a struct of values, and return its name. After an error it is null, and the record has failed."""
        values = [column_of(one).alias(f"v{at}") for at, one in enumerate(expressions)]
        done, failed = self._new_name("done"), self._new_name("failed")
        branch = F.when(F.col(self.kept), F.struct(*values))
        self.frame = self.frame.select("*", tried(self.frame.sparkSession, branch).alias(done))
        self.frame = self.frame.selectExpr("*", f"{self.failed} or ({self.kept} and {done} is null) as {failed}")
        self.failed = failed
        self._keep(f"{done} is not null")
        return done

    def _keep(self, condition: str) -> None:
        kept = self._new_name("kept")
        self.frame = self.frame.selectExpr("*", f"{self.kept} and {condition} as {kept}")
        self.kept = kept

    def _new_name(self, what: str) -> str:
        self._names += 1
        return f"__{what}_{self._names}"

    def _add(self, named: Sequence[Any]) -> DataFrame:
        return self.frame.select("*", *(column_of(one) for one in named))

    def _with_child(self, alias: Any, value: Column) -> Any:
        """Return the alias, under its identifier, of another value."""
        spark, of = self.frame.sparkSession, cast("Any", value)
        return alias.withNewChildren(sequence(spark, [internals(spark).expression(of._jc)]))


def column_of(expression: Any) -> Column:
    """Return an expression of Spark's as a column."""
    return ClassicColumn(internals(SparkSession.active()).column(expression))


def output_of(frame: DataFrame) -> list[Any]:
    """Return the attributes of a frame."""
    return items(_plan(frame).output())


def local_table(spark: SparkSession, header: Sequence[str], rows: Sequence[tuple[str | None, ...]]) -> DataFrame:
    """Return a table of texts that is part of a plan, and so the same in each epoch."""
    schema = ", ".join("`" + one.replace("`", "``") + "` string" for one in header)
    java: Any = spark.createDataFrame(rows, schema)._jdf
    made = spark._jsparkSession.createDataFrame(java.collectAsList(), java.schema())
    return DataFrame(made, spark)


def _plan(frame: DataFrame) -> Any:
    java: Any = frame._jdf
    return java.queryExecution().analyzed()
