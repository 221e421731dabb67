"""The condition, the columns and the elements of a job file: SQL of a user, by which no event may end the query.

Spark raises an error for a division by zero, an overflow or an unfit cast. `TryEval`, which is behind Spark's own
`try_...` functions, makes it NULL. It holds only what is evaluated inside of it: Spark computes expressions that
occur twice beforehand, unless they are in a branch of a condition. So each `TryEval` is about such a branch.

A value may be NULL without an error. So what is tried is a struct, which is NULL only after an error.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cutwater.adapters.job_files.event_schema import field_types
from cutwater.adapters.job_files.spark_types import cast_to, each_of, in_brackets
from cutwater.core.events.rejection import ELEMENTS_MAX, EXPRESSION_RULE, FAILED_EXPRESSION, NO_ROOM
from cutwater.core.job.columns import ComputedColumn, Explode
from cutwater.core.job.job import Job
from cutwater.core.job.measures import FieldType
from cutwater_spark.plans.catalyst import tried
from cutwater_spark.plans.transform import TRANSFORMED, with_transform
from cutwater_spark.query.formats import EVENT, REASON
from cutwater_spark.query.rejection_reasons import Flaw, flaw, rule_struct
from cutwater_spark.query.sql import name, text

WHERE, COLUMNS, ELEMENTS = "__where", "__columns", "__elements"
INDEX = "__index"
"""The place of an element in its array."""
_FILTERED = f"not {TRANSFORMED}.kept and not {TRANSFORMED}.failed"
_OUTER, _COLUMN, _ELEMENT = "__outer_", "__column_", "__element_"
"""Prefixes: of the Kafka record's columns beside an event's fields, and of expressions tried one by one."""


def with_computed_columns(found: DataFrame, job: Job, explained: bool = False) -> DataFrame:
    """Add the outcome of the condition and the columns' values to events with their `__reason`.

    `__where` is a struct (`kept`) of a usable event, `__columns` a struct of the values of an event that is kept,
    `__elements` a struct of its array's elements that are kept (`found`) and of their number before (`size`). For
    others, and after an error, each is NULL. `__transformed` is what the user's function makes of it.
    `explained`: also try each expression alone, to tell which one fails.
    """
    outer = [f"{name(one)} as {name(_OUTER + one)}" for one in found.columns]
    usable = f"{name(_OUTER + REASON)} is null"
    kept = f"coalesce({in_brackets(job.where)}, false)" if job.where else "true"
    fields = found.selectExpr(*outer, f"{EVENT}.*")
    judged = fields.select("*", _tried(found, usable, f"named_struct('kept', {kept})").alias(WHERE))
    values = {COLUMNS: f"named_struct({', '.join(_value(one) for one in job.columns)})"} if job.columns else {}
    if explained:
        values |= {f"{_COLUMN}{at}": f"named_struct({_value(one)})" for at, one in enumerate(job.columns)}
    if job.explode:
        values[ELEMENTS] = _elements(job.explode)
        if explained:
            tried = enumerate(_parts(job.explode).values())
            values |= {f"{_ELEMENT}{at}": f"named_struct('tried', {sql})" for at, sql in tried}
    computed = judged.select(
        *(F.col(name(_OUTER + one)).alias(one) for one in found.columns),
        F.col(WHERE),
        *(_tried(found, f"{WHERE}.kept", sql).alias(column) for column, sql in values.items()),
    )
    if job.transform is None:
        return computed
    whole = "".join(f" and {one} is not null" for one in values if one in (COLUMNS, ELEMENTS))
    return with_transform(computed, job.transform, _given_sqls(job), f"coalesce({WHERE}.kept, false){whole}")


def expression_flaws(job: Job, explained: bool = False) -> list[Flaw]:
    """Return what ends the judging of an event: it is left out, which is no reason, or an expression fails."""
    nothing = "cast(null as string)"
    found = [Flaw(f"not {WHERE}.kept", nothing, rule_struct(nothing))]
    found.append(flaw(f"{WHERE} is null", FAILED_EXPRESSION, EXPRESSION_RULE, "source.where"))
    if explained:
        found += [
            flaw(f"{_COLUMN}{at} is null", FAILED_EXPRESSION, EXPRESSION_RULE, f"source.columns.{one.name}")
            for at, one in enumerate(job.columns)
        ]
    if job.columns:
        found.append(flaw(f"{COLUMNS} is null", FAILED_EXPRESSION, EXPRESSION_RULE, "source.columns"))
    if job.explode:
        array = "source.explode.array"
        rule = f"concat('has ', {ELEMENTS}.size, ' elements, and an array may have {ELEMENTS_MAX}')"
        if explained:
            found += [
                flaw(f"{ELEMENTS} is null and {_ELEMENT}{at} is null", FAILED_EXPRESSION, EXPRESSION_RULE, part)
                for at, part in enumerate(_parts(job.explode))
            ]
        found.append(flaw(f"{ELEMENTS} is null", FAILED_EXPRESSION, EXPRESSION_RULE, "source.explode"))
        found.append(Flaw(f"{ELEMENTS}.size > {ELEMENTS_MAX}", text(NO_ROOM), rule_struct(rule, array)))
    if job.transform:
        found.append(Flaw(_FILTERED, nothing, rule_struct(nothing)))
        found.append(flaw(f"{TRANSFORMED}.failed", FAILED_EXPRESSION, EXPRESSION_RULE, "source.transform"))
    return found


def _elements(explode: Explode) -> str:
    columns = ", ".join([f"{text(INDEX)}, {INDEX}", *map(_value, explode.columns)])
    one = f"named_struct({columns})"
    if explode.where:
        one = f"case when {in_brackets(explode.where)} then {one} end"
    kept = f"filter(transform(__array, (`{explode.item}`, {INDEX}) -> {one}), __kept -> __kept is not null)"
    found = f"if(size(__array) > {ELEMENTS_MAX}, null, {kept})"
    both = f"named_struct('size', coalesce(size(__array), 0), 'found', {found})"
    return f"element_at(transform(array({in_brackets(explode.array)}), __array -> {both}), 1)"


def _parts(explode: Explode) -> dict[str, str]:
    """Return each expression by its name in the job file."""
    within = {"where": explode.where} if explode.where else {}
    within |= {f"columns.{one.name}": cast_to(one.sql, one.type) for one in explode.columns}
    each = {part: each_of(explode.array, explode.item, sql) for part, sql in within.items()}
    return {f"source.explode.{part}": sql for part, sql in {"array": in_brackets(explode.array), **each}.items()}


def not_kept(job: Job) -> str:
    """Return, as SQL, whether the condition is not true, or no element is kept. The event may have a flaw that is
    found before."""
    left = f"coalesce(not {WHERE}.kept, false)" if job.has_expressions else "false"
    if job.transform:
        left = f"({left} or coalesce({_FILTERED}, false))"
    if job.explode:
        judged = f"coalesce({ELEMENTS}.size <= {ELEMENTS_MAX}, false)"
        left = f"({left} or {judged} and coalesce(size({ELEMENTS}.found), 0) < 1)"
    return left


def event_with_columns(job: Job) -> str:
    """Return the event with its columns."""
    if not job.columns and not job.added_columns:
        return EVENT
    return f"named_struct({', '.join(f'{text(one)}, {sql}' for one, sql in value_sqls(job).items())})"


def usable_types(job: Job) -> dict[str, FieldType]:
    """Return the types of an event's fields and columns, without those of its elements."""
    return {**field_types(job.event_schema), **job.column_types}


def value_sqls(job: Job) -> dict[str, str]:
    """Return the same fields and columns as SQL over what `with_computed_columns` returns."""
    added = {one.name: f"{TRANSFORMED}.values.{name(one.name)}" for one in job.added_columns}
    return {**_given_sqls(job), **added}


def _given_sqls(job: Job) -> dict[str, str]:
    """Return those that the user's function is given."""
    fields = {one: f"{EVENT}.{name(one)}" for one in field_types(job.event_schema)}
    return {**fields, **{one.name: f"{COLUMNS}.{name(one.name)}" for one in job.columns}}


def _value(column: ComputedColumn) -> str:
    return f"{text(column.name)}, {cast_to(column.sql, column.type)}"


def _tried(frame: DataFrame, when: str, sql: str) -> Column:
    """Return the struct where `when` holds; NULL after an error."""
    return tried(frame.sparkSession, F.expr(f"case when {when} then {sql} end"))
