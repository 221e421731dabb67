"""Rows as users see them: each measure's value, computed from the partials in the changelog."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from cutwater.adapters.avro.codec import Codec
from cutwater.core.events.formats import CONFLUENT_HEADER_BYTES, is_confluent
from cutwater.core.events.json_events import float_plain
from cutwater.core.job.job import Job
from cutwater.views.store.key_layout import Window

Row = dict[str, Any]
"""key, its columns if it is a list, window_start and window_end (ms), then one column per measure."""


class Presenter:
    """Conversion of stored values to rows."""

    def __init__(self, job: Job) -> None:
        self._codec = Codec(job.state_schema)
        self._measures = job.measures
        self._key_values = job.key_values_plain
        self._present = {measure.name: measure.present for measure in job.measures}

    def row(self, window: Window, value: bytes) -> Row:
        """Return the row of a stored value. Raises UsageError if its bytes are damaged."""
        return self._named(window) | {name: plain(found) for name, found in self.values(value).items()}

    def values(self, value: bytes) -> dict[str, Any]:
        """Return the measures alone, as Python values. Raises UsageError if the bytes are damaged."""
        partials = self._partials(value)
        return {measure.name: measure.present(partials) for measure in self._measures}

    def partials(self, value: bytes) -> dict[str, Any]:
        """Return the partials of one row by column. Raises UsageError as `values` does."""
        return self._partials(value)

    def merged_row(self, window: Window, partials: Mapping[str, Any]) -> Row:
        """Return the row of merged partials."""
        return self._named(window) | {name: plain(present(partials)) for name, present in self._present.items()}

    def _named(self, window: Window) -> Row:
        times = {"window_start": window.start_ms, "window_end": window.end_ms}
        return {"key": window.key, **self._key_values(window.key), **times}

    def value(self, name: str, value: bytes) -> Any:
        """Return one measure as a Python value. Raises KeyError if unknown, UsageError as `values` does."""
        return self._present[name](self._partials(value))

    def _partials(self, value: bytes) -> dict[str, Any]:
        if is_confluent(value):  # every reader has compared its schema, which is the milestone's
            return self._codec.decode_body(value, CONFLUENT_HEADER_BYTES)
        return self._codec.decode(value)


def plain(value: Any) -> Any:
    """Return a measure's value for JSON, without losing a digit."""
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        return int(value) if exponent == 0 else str(value)
    if isinstance(value, float):
        return float_plain(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value
