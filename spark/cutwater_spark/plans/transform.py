"""The user's function: imported, called with the events and tables, and its result as columns of each record."""

from __future__ import annotations

import csv
import importlib
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import sha256
from importlib.util import module_from_spec
from io import StringIO
from pathlib import Path
from typing import Any, cast

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from cutwater.adapters.job_files.spark_types import sql_type
from cutwater.adapters.job_files.transform_function import find_module, module_code
from cutwater.core.errors import UsageError
from cutwater.core.job.columns import Transform
from cutwater.core.util.suggestions import listed
from cutwater_spark.plans.replay import Replay, column_of, local_table, output_of

TRANSFORMED = "__transformed"
"""Column: of a usable event whether it is `kept`, whether an expression has `failed`, and the `values`."""


def with_transform(found: DataFrame, transform: Transform, fields: Mapping[str, str], usable: str) -> DataFrame:
    """Add `__transformed` to records. `fields`: an event's fields and columns, `usable`: a condition, as SQL.

    Raise UsageError if the function, its plan or its columns cannot be used.
    """
    plain = found.selectExpr("*", *(f"{sql} as `__field_{at}`" for at, sql in enumerate(fields.values())))
    replay = Replay(plain, usable)
    events = replay.frame.select(*(F.col(f"__field_{at}").alias(name) for at, name in enumerate(fields)))
    # The events are their own fields in the plan, so that the replay finds them by their identifiers.
    replay.begin(events)
    result = _called(found.sparkSession, transform, events)
    try:
        replay.run(result)
        values = _declared(result, transform, events)
    except UsageError as error:
        raise UsageError(f"source.transform ({transform.function}): {error}") from None
    parts = [F.col(replay.kept).alias("kept"), F.col(replay.failed).alias("failed")]
    if values:
        parts.append(F.struct(*values).alias("values"))
    # By identifiers: a field of the event may have the name of a column of Kafka's.
    shown = [column_of(one) for one in output_of(found)]
    return replay.frame.select(*shown, F.struct(*parts).alias(TRANSFORMED))


def _called(spark: SparkSession, transform: Transform, events: DataFrame) -> DataFrame:
    function, contents = _imported(transform), dict(transform.contents)
    tables = {name: _table(spark, name, path, contents[name]) for name, path in transform.tables}
    try:
        result = function(events, **tables)
    except PySparkException as error:
        raise UsageError(f"source.transform ({transform.function}): {str(error).splitlines()[0]}") from error
    except Exception as error:
        given = ", ".join(["events", *(f"{name}=..." for name in tables)])
        text = f"source.transform: {transform.function}({given}) raised {type(error).__name__}: {error}"
        raise UsageError(text) from error
    if not isinstance(result, DataFrame):
        text = f"returned {type(result).__name__}: return the DataFrame that is made of its first argument"
        raise UsageError(f"source.transform ({transform.function}): {text}")
    return result


def _imported(transform: Transform) -> Callable[..., Any]:
    """Return the function of the module that the job file means, whatever another one of its name has been."""
    module, _, name = transform.function.partition(":")
    spec = find_module(module, Path(transform.folder))
    if spec is None or spec.loader is None:
        text = f"there is no module '{module}': put it beside the job file, or install it where the driver runs"
        raise UsageError(f"source.transform: {text}")
    if transform.folder not in sys.path:
        sys.path.append(transform.folder)  # for what the module imports itself
    try:
        made = sys.modules.get(module)
        if made is None or getattr(made, "__file__", None) != spec.origin:
            if "." in module:
                importlib.import_module(module.rpartition(".")[0])
            code = module_code(spec) or b""
            if sha256(code).hexdigest() != dict(transform.contents).get(transform.function):
                raise UsageError(f"source.transform: {spec.origin} has changed meanwhile: start the driver again")
            made = sys.modules[module] = module_from_spec(spec)
            spec.loader.exec_module(made)
        found = getattr(made, name)
    except UsageError:
        raise
    except Exception as error:
        sys.modules.pop(module, None)
        text = f"source.transform: importing {transform.function} raised {type(error).__name__}: {error}"
        raise UsageError(text) from error
    if not callable(found):
        raise UsageError(f"source.transform: {transform.function} is no function")
    return cast("Callable[..., Any]", found)


@lru_cache(maxsize=16)
def _table(spark: SparkSession, name: str, path: str, content: str) -> DataFrame:
    """Return a table, all columns texts. It is read once, so the lists of an epoch see what the epoch saw."""
    read = Path(path).read_bytes()
    if sha256(read).hexdigest() != content:
        raise UsageError(f"source.transform.tables.{name}: {path} has changed meanwhile: start the driver again")
    try:
        header, *rows = csv.reader(StringIO(read.decode("utf-8-sig"), newline=""), strict=True)
    except (ValueError, csv.Error) as error:
        raise UsageError(
            f"source.transform.tables.{name}: {path} is no CSV in UTF-8 with a header: {error}"
        ) from None
    if len({one.lower() for one in header}) < len(header) or not all(header):
        raise UsageError(f"source.transform.tables.{name}: the header of {path} has a name twice, or an empty one")
    for line, row in enumerate(rows, 2):
        if row and len(row) != len(header):
            text = f"record {line} has {len(row)} values, and the header {len(header)} names"
            raise UsageError(f"source.transform.tables.{name}: {path}: {text}")
    return local_table(spark, header, [tuple(one or None for one in row) for row in rows if row])


def _declared(result: DataFrame, transform: Transform, events: DataFrame) -> list[Column]:
    """Return the declared columns of a result. Raise UsageError if one is missing or of another type."""
    own, made = output_of(events), output_of(result)
    ids = {one.exprId().toString() for one in own}
    for field in own:
        same = [one for one in made if one.name().lower() == field.name().lower()]
        if same and not any(one.exprId().toString() in ids for one in same):
            text = f"the result has another column '{field.name()}' than the events"
            raise UsageError(f"{text}: give it a name of its own, and declare it in 'columns'")
    values = []
    for column in transform.columns:
        found = [one for one in made if one.name().lower() == column.name.lower()]
        if len(found) != 1:
            what = f"has {len(found)} columns '{column.name}'" if found else f"has no column '{column.name}'"
            raise UsageError(
                f"the result {what}, which is declared; it has: {listed([one.name() for one in made])}"
            )
        wanted = "string" if column.type.name == "uuid" else sql_type(column.type)
        given = str(found[0].dataType().catalogString())
        if given != wanted.replace(" ", ""):
            text = f"column '{column.name}' is {given}, and is declared as {column.type}"
            raise UsageError(f"{text}: cast it in the function, as in .cast('{wanted}'), or correct the file")
        value = column_of(found[0])
        values.append((F.lower(value) if column.type.name == "uuid" else value).alias(column.name))
    return values
