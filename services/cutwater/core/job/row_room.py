"""How long a text may be that a row keeps: the row must fit into one record of changelog and output."""

from __future__ import annotations

from collections.abc import Sequence

from cutwater.core.errors import UsageError
from cutwater.core.events.rejection import MAX_KEY_BYTES
from cutwater.core.job.job import Job
from cutwater.core.job.measures import Measure
from cutwater.core.protocol.topics import ROW_BYTES_MAX

_ESCAPED = 6
"""So many bytes an output in JSON makes of one, a control character's. Whatever the job file's output is today: an
epoch that is run again must find the same events too large, and rows outlive that setting."""
_BESIDE_BYTES = 64 * 1024
"""A row's key, escaped, its window and headers, and what Kafka adds."""
_MEASURE_BYTES = 8 * 1024
"""A measure's name, and what it keeps beside a text: a sketch has 4 KiB."""


def text_bytes_max(measures: Sequence[Measure]) -> int:
    """Of each text that one of these measures keeps, in UTF-8."""
    texts = sum(1 for one in measures if one.output == "string")
    return (ROW_BYTES_MAX - _BESIDE_BYTES - _MEASURE_BYTES * len(measures)) // (_ESCAPED * max(1, texts))


def require_room(measures: Sequence[Measure]) -> None:
    """Raise UsageError for so many measures that a row of them has no room for a text of some length."""
    if text_bytes_max(measures) < MAX_KEY_BYTES:
        raise UsageError(
            f"{len(measures)} measures have no room in a row of {ROW_BYTES_MAX:,} bytes: have fewer, above all of "
            "those that keep a text"
        )


def too_long(job: Job) -> dict[str, tuple[int, str]]:
    """Of the fields that may hold a longer text than its measure can keep: the bound, and the rule to tell.

    Few jobs have any: a text is no longer than its event.
    """
    most = text_bytes_max(job.measures)
    return {
        one.field: (most, f"has more than {most} bytes, which is what measure '{one.name}' may keep of a text")
        for one in job.measures
        if one.field and one.output == "string" and job.max_event_bytes > most
    }
