"""Our values in Spark's words: literals and names of its SQL, Avro bytes, options of its Kafka source and sink."""

from __future__ import annotations

import json
from typing import Any

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.kafka.client_config import Cluster


def text(value: str) -> str:
    """A string literal."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def binary(value: bytes) -> str:
    return f"X'{value.hex()}'"


def name(value: str) -> str:
    """A column's or field's name."""
    return f"`{value.replace('`', '``')}`"


def single_object_bytes(record: str, codec: Codec) -> str:
    """A struct of Spark SQL as bytes: Avro with single-object encoding."""
    return framed_bytes(record, codec.schema, codec.header)


def framed_bytes(record: str, schema: dict[str, Any], header: bytes) -> str:
    """A struct of Spark SQL as Avro behind a header."""
    return f"concat({binary(header)}, to_avro({record}, {text(json.dumps(schema))}))"


def kafka_options(cluster: Cluster) -> dict[str, str]:
    """A cluster's settings as options of Spark's Kafka source and sink."""
    return {f"kafka.{name}": value for name, value in cluster.jvm().items()}
