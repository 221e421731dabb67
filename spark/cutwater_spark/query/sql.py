"""Literals and names of Spark's SQL, Avro bytes in SQL, options of its Kafka source and sink."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.events.key_columns import UUID, KeyColumn, key_text
from cutwater.core.job.job import Job

_UUID_PARTS = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
"""The first digit of each part of a UUID, and how many there are."""


def text(value: str) -> str:
    """Return a string literal."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def binary(value: bytes) -> str:
    return f"X'{value.hex()}'"


def name(value: str) -> str:
    """Return a column's or field's name, quoted."""
    return f"`{value.replace('`', '``')}`"


def key_text_of(job: Job, values: Sequence[str]) -> str:
    """Return the key of its fields' values: of a list `cutwater.core.events.key_columns.key_text`."""
    texts = [_column_text(job, column, value) for column, value in zip(job.key_parts, values, strict=True)]
    if job.key_columns is None:
        return texts[0]
    return f"to_json(array({', '.join(texts)}))" if texts else text(key_text(()))


def _column_text(job: Job, column: KeyColumn, value: str) -> str:
    """Return the text of a value, NULL of NULL: `cutwater.core.events.key_columns.text_of`.

    Spark's own texts are those, of decimals in ANSI mode. A UUID is bytes in a field, and a text in a column.
    """
    if column.kind != UUID or column.name in job.column_types:
        return f"cast({value} as string)"
    digits = f"lower(hex({value}))"
    parts = ", '-', ".join(f"substring({digits}, {at}, {length})" for at, length in _UUID_PARTS)
    return f"concat({parts})"


def single_object_bytes(record: str, codec: Codec) -> str:
    return framed_bytes(record, codec.schema, codec.header)


def framed_bytes(record: str, schema: dict[str, Any], header: bytes) -> str:
    """Return a struct of Spark SQL as Avro after a header."""
    return f"concat({binary(header)}, to_avro({record}, {text(json.dumps(schema))}))"


def kafka_options(cluster: Cluster) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in cluster.jvm().items()}
