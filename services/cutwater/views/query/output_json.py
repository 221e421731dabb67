"""JSON of the output's end markers and rows, both ways, for the publisher and the client library."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from cutwater.adapters.avro import protocol_records
from cutwater.core.errors import UsageError
from cutwater.core.output.position import End
from cutwater.core.protocol.generation import Generation
from cutwater.core.util.timestamps import iso
from cutwater.views.store.key_layout import Window

_SAME = ("first_sequence", "sequence", "part", "last", "rows", "rewinds_to")
_TIMES = ("watermark", "committed", "published")


def end_fields(end: End) -> dict[str, Any]:
    """Return an end marker as a JSON object."""
    same = {name: getattr(end, name) for name in _SAME}
    times = {name: iso(getattr(end, f"{name}_ms")) for name in _TIMES}
    return {"end": True, "generation": str(end.generation), **same, **times}


def end_of(job: str, fields: Mapping[str, Any]) -> End:
    """Return the end marker of an object from `end_fields`. Raises UsageError for any other object."""
    try:
        same: dict[str, Any] = {name: fields[name] for name in _SAME}
        times: dict[str, Any] = {f"{name}_ms": from_iso(fields[name]) for name in _TIMES}
        return End(job=job, generation=Generation.parse(fields["generation"]), **same, **times)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"not an end marker: {str(dict(fields))[:200]} ({error!r})") from None


def row_fields(head: Mapping[str, Any], window: Window, measures: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as a JSON object in the order of the output's schema. `head`: what comes before the key."""
    times = {"window_start": iso(window.start_ms), "window_end": iso(window.end_ms)}
    return {**head, "key": window.key, **times, **measures}


def from_iso(moment: str | int) -> int:
    """Invert `iso`: return ms. Raises ValueError or TypeError."""
    return moment if isinstance(moment, int) else protocol_records.millis(datetime.fromisoformat(moment))
