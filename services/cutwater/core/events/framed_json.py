"""A decoder of JSON events behind a registry's framing, for samples that are read without Spark.

The number must be one of the subject's; the schema behind it is not read. The driver does the same in SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cutwater.core.events import json_records
from cutwater.core.events.formats import (
    CONFLUENT_HEADER_BYTES,
    CONFLUENT_JSON,
    WriterSchema,
    of_another_schema,
)
from cutwater.core.events.json_events import json_fields
from cutwater.core.events.rejection import NO_VALUE, NO_VALUE_RULE, UNDECODABLE, Flaw


class FramedJsonReader:
    """Reads events of the `known` schemas with a job's `schema`."""

    def __init__(self, schema: Mapping[str, Any], known: Iterable[WriterSchema]) -> None:
        self._fields = json_fields(schema)
        self._problems = {one.header: one.problem for one in known}

    def read(self, value: bytes | None) -> dict[str, Any] | Flaw:
        if value is None:
            return Flaw(NO_VALUE, NO_VALUE_RULE)
        problem = self._problems.get(value[:CONFLUENT_HEADER_BYTES])
        if problem is None:
            return of_another_schema(CONFLUENT_JSON, value)
        if problem:
            return Flaw(UNDECODABLE, problem)
        return json_records.read(value[CONFLUENT_HEADER_BYTES:], self._fields, CONFLUENT_JSON)
