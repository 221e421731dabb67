"""Program for `cutwater verify`: Spark's state of a job after one epoch, as rows of the changelog.

    python -m cutwater_spark.tools.state JOBFILE EPOCH FOLDER ROWS_MAX

Each line of the files in FOLDER is a row: key and value as on the changelog, in base64. The checkpoint is
only read; the query may run meanwhile. Spark keeps the state of its newest epochs (100 by default).
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.config.settings import Settings, load_settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.topics.generation_jobs import working_for
from cutwater.core.errors import CutwaterError, UnavailableError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.job.kinds.positions import EVENT_TIME_ALIAS
from cutwater.core.job.kinds.quantiles import EMPTY
from cutwater.core.job.measures import Measure, Partial
from cutwater.core.protocol.changelog_rows import Writer
from cutwater_spark.attempt import location_of
from cutwater_spark.checkpoint import Checkpoint
from cutwater_spark.query.query import row_expressions
from cutwater_spark.query.sql import binary, name
from cutwater_spark.session import open_session

_CALL = re.compile(
    r"\b(count|sum|min|max|avg|var_pop|hll_sketch_agg|hll_union_agg|kll_sketch_agg_double|kll_merge_agg_double"
    r"|approx_top_k_accumulate|theta_sketch_agg|theta_union_agg)\("
)


def state_columns(job: Job, value: StructType, seeded: bool = False) -> list[str]:
    """Return a row's partials as SQL over the state's columns, which Spark names after its aggregates' buffers.

    Equal aggregates share one buffer. Those over the places of events do not if Spark's watermark closes windows,
    since it keeps the alias of the event time then. `seeded`: the query groups a seed with the events. Raise
    UsageError if the buffers are not those of the job's measures.
    """
    apart = "" if job.amend_for_ms is not None else EVENT_TIME_ALIAS
    buffers: dict[str, int] = {}
    names: list[str] = []
    found = []
    for measure, partial in ((one, partial) for one in job.measures for partial in one.partials):
        sql, made = partial.over_both if seeded else partial.over_events, ""
        while call := _aggregate(sql):
            wanted = _buffers(call.kind, _type_of(call.text, measure, partial))
            if call.text not in buffers or (apart and apart in call.text):
                buffers[call.text] = len(names)
                names += wanted
            at = buffers[call.text]
            made += call.before + _result(call.kind, at, "isEmpty" in wanted)
            sql = call.after
        found.append(f"{made}{sql} as {name(partial.column)}")
    there = [field.name for field in value.fields]
    if there != names:
        raise UsageError(f"the state holds {', '.join(there)}, but the job's measures need {', '.join(names)}")
    return found


def _type_of(aggregate: str, measure: Measure, partial: Partial) -> object:
    """Return the Avro type of an aggregate's result: a stored value is computed from those of other measures."""
    owners = (one for one in measure.inputs if aggregate in one.over_both or aggregate in one.over_events)
    return next(owners, partial).avro


_BUFFERS = {"avg": ["sum", "count"], "var_pop": ["n", "avg", "m2"]}


class _Call(NamedTuple):
    before: str
    text: str
    kind: str
    after: str


def _aggregate(sql: str) -> _Call | None:
    found = _CALL.search(sql)
    if found is None:
        return None
    depth, at = 0, found.end() - 1
    for at in range(found.end() - 1, len(sql)):
        depth += {"(": 1, ")": -1}.get(sql[at], 0)
        if depth == 0:
            break
    return _Call(sql[: found.start()], sql[found.start() : at + 1], found[1], sql[at + 1 :])


def _result(kind: str, at: int, may_be_empty: bool) -> str:
    """Return an aggregate's result, as SQL. `at`: the position of its first buffer."""
    if kind == "hll_union_agg":  # without any sketch its buffer is empty, which is no sketch
        return f"nullif(value.f{at}, X'')"
    if kind.startswith("kll"):  # Spark's last step merges it into an empty one, which orders its values anew
        return f"kll_sketch_merge_double({binary(EMPTY)}, value.f{at})"
    if kind.startswith("approx_top_k"):  # of the result only this field is read
        return f"named_struct('sketch', value.f{at})"
    if kind == "avg":
        return f"if(value.f{at + 1} = 0, null, value.f{at} / value.f{at + 1})"
    if kind == "var_pop":
        return f"if(value.f{at} = 0, null, value.f{at + 2} / value.f{at})"
    return f"if(value.f{at + 1}, null, value.f{at})" if may_be_empty else f"value.f{at}"


def _buffers(kind: str, avro: object) -> list[str]:
    if kind.startswith(("hll", "kll", "theta", "approx_top_k")):
        return ["buf"]
    if kind == "sum" and isinstance(avro, dict) and avro.get("logicalType") == "decimal":
        return ["sum", "isEmpty"]  # the second one says whether nothing was added
    return _BUFFERS.get(kind, [kind])


def write(spark: SparkSession, job: Job, settings: Settings, epoch: int, folder: str, rows_max: int) -> None:
    location = location_of(job, settings)
    seeded = Checkpoint(spark, location).seed() is not None
    spark.streams  # noqa: B018  (starts the state store coordinator, which reading needs)
    state = spark.read.format("statestore").option("batchId", epoch).load(location)
    value = state.schema["value"].dataType
    key = state.schema["key"].dataType
    if not isinstance(value, StructType) or not isinstance(key, StructType):
        raise UsageError(f"{location} holds no state of an aggregation")
    # By position: Spark gives two counts the same name.
    types = ", ".join(f"f{number}: {field.dataType.simpleString()}" for number, field in enumerate(value.fields))
    window = key.fields[0].dataType.simpleString()
    placed = state.selectExpr(
        f"cast(key as struct<__window: {window}, __key: string>) as key",
        f"cast(value as struct<{types}>) as value",
    )
    aggregates = placed.selectExpr(
        "key.__window as __window", "key.__key as __key", *state_columns(job, value, seeded)
    )
    rows = aggregates.selectExpr(
        *row_expressions(job, Writer(settings.generation, 0, epoch), Codec(job.state_schema).header)
    )
    lines = rows.selectExpr("concat(base64(key), ' ', base64(value)) as line").limit(rows_max)
    # Spark breaks base64 into lines of 76 characters.
    lines.selectExpr("regexp_replace(line, '[\\r\\n]', '') as value").write.text(folder)


def main() -> int:
    try:
        if len(sys.argv) != 5:
            raise UsageError("arguments: JOBFILE EPOCH FOLDER (a new folder) ROWS_MAX")
        _, job_file, epoch, folder, rows_max = sys.argv
        settings = load_settings().model_copy(update={"spark_ui_port": 0})
        job, settings = working_for(load_job(Path(job_file)), settings)
        if job.attached:
            raise UsageError(f"job {job.name} is a query of your own: the layout of its state is not known")
        spark = open_session(job, settings, location_of(job, settings))
        try:
            write(spark, job, settings, int(epoch), folder, int(rows_max))
        finally:
            spark.stop()
    except CutwaterError as error:
        print(f"cutwater state: {error}", file=sys.stderr)
        return error.exit_code
    except (Py4JError, PySparkException) as error:
        print(f"cutwater state: {' '.join(str(error).split())[:1_000]}", file=sys.stderr)
        return UnavailableError.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
