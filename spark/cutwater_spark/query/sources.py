"""The source columns of a generation: region, offset and partition number of each record."""

from __future__ import annotations

from cutwater.core.generations.source_topics import Sources
from cutwater.core.protocol.mirror_records import SOURCE_OFFSET
from cutwater_spark.query.sql import text

ORIGIN, OFFSET, NUMBER = "__origin", "__offset", "__number"
"""Columns: the region of a record, its offset there, and the number of its partition among all."""

_HEADER = f"filter(headers, one -> one.key = {text(SOURCE_OFFSET)})"
# The last one of that name: the mirror appends its header to the event's own.
_THERE = f"try_cast(cast(try_element_at({_HEADER}, -1).value as string) as bigint)"


def source_columns(sources: Sources) -> list[str]:
    """Return these columns as SQL over the records of Kafka's source.

    The offset is NULL if a copied record has none in its headers. The number is NULL in a partition of a copy that
    was added after the query's start.
    """
    copies, firsts, counts = sources.copies, sources.firsts, sources.partitions
    if not copies:
        return [f"{text(sources.region)} as {ORIGIN}", f"offset as {OFFSET}", f"partition as {NUMBER}"]
    regions = " ".join(f"when {text(topic)} then {text(region)}" for topic, region in copies.items())
    numbers = " ".join(
        f"when topic = {text(topic)} then if(partition < {counts[topic]}, partition + {firsts[topic]}, null)"
        for topic in copies
    )
    copied = ", ".join(text(topic) for topic in copies)
    return [
        f"case topic {regions} else {text(sources.region)} end as {ORIGIN}",
        f"case when topic in ({copied}) then {_THERE} else offset end as {OFFSET}",
        f"case {numbers} else partition + {firsts[sources.topic]} end as {NUMBER}",
    ]
