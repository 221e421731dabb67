"""One contender of B5: a topic's records into rows, over and over, in one process.

python -m benchmarks.decode.contender CONTENDER JOBFILE ROUNDS RESULTFILE

The driver's settings come from the environment. The result: when each round began and ended, in seconds since
1970, and what was decoded.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from benchmarks.decode.events import known
from cutwater.adapters.avro.codec import HEADER_BYTES, Codec
from cutwater.adapters.config.settings import Settings, load_settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.client import bounds, make_consumer, partition_count, read_range
from cutwater.core.job.job import Job
from cutwater_spark.query.formats import with_events
from cutwater_spark.query.sql import kafka_options
from cutwater_spark.session import open_session


def rows(contender: str, topic: DataFrame, job: Job) -> DataFrame:
    """What a contender makes of the topic: a column per field."""
    if contender == "read":
        return topic.select("value")
    if contender == "from_avro":
        body = F.expr(f"substring(value, {HEADER_BYTES + 1})")
        return topic.select(from_avro(body, json.dumps(job.event_schema)).alias("event")).select("event.*")
    if contender == "from_json":
        types = with_events(topic, job, ()).schema["event"].dataType.simpleString()
        schema = types.replace("timestamp", "string")
        return topic.select(F.expr(f"from_json(cast(value as string), '{schema}') as event")).select("event.*")
    return with_events(topic.select("value"), job, known(job)).select("event.*", "__reason")


def in_spark(contender: str, job: Job, settings: Settings, rounds: int) -> dict[str, Any]:
    spark: SparkSession = open_session(job, settings, str(settings.data_dir))
    source = spark.read.format("kafka").options(**kafka_options(settings.cluster)).option("subscribe", job.topic)
    topic = source.option("startingOffsets", "earliest").option("endingOffsets", "latest").load()
    frame = rows(contender, topic, job)
    moments = timed(rounds, lambda: to_nowhere(frame))
    held = topic.select("value").cache()
    held.count()
    from_memory = rows(contender, held, job)
    in_memory = timed(rounds, lambda: to_nowhere(from_memory))
    seen = frame.agg(F.count(F.lit(1)))
    if contender != "read":
        seen = frame.agg(F.count("airport"), F.sum("distance_miles"), F.sum("delay_minutes"))
    found = [int(one or 0) for one in seen.first() or ()]
    spark.stop()
    return {"rounds": moments, "in_memory": in_memory, "seen": found}


def to_nowhere(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def in_python(job: Job, settings: Settings, rounds: int) -> dict[str, Any]:
    """fastavro, one thread, the values in memory."""
    consumer = make_consumer(settings.cluster)
    values = [
        message.value()
        for number in range(partition_count(settings.cluster, job.topic))
        for message in read_range(consumer, job.topic, number, 0, bounds(consumer, job.topic, number)[1])
    ]
    decode = Codec(job.event_schema).decode
    seen = [0, 0, 0]

    def once() -> None:
        count = miles = delays = 0
        for value in values:
            event = decode(value)
            count, miles = count + 1, miles + event["distance_miles"]
            delays += event["delay_minutes"] or 0
        seen[:] = count, miles, delays

    return {"rounds": [], "in_memory": timed(rounds, once), "seen": seen}


def timed(rounds: int, once: Callable[[], None]) -> list[tuple[float, float]]:
    moments = []
    for _ in range(rounds):
        began = time.time()
        once()
        moments.append((began, time.time()))
    return moments


def main(contender: str, job_file: Path, rounds: int, result: Path) -> None:
    job, settings = load_job(job_file), load_settings()
    if contender == "fastavro":
        found = in_python(job, settings, rounds)
    else:
        found = in_spark(contender, job, settings, rounds)
    result.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
