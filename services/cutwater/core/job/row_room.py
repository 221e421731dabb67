"""The largest text that a row keeps: the row must fit one record of the changelog and of the output."""

from __future__ import annotations

from collections.abc import Sequence

from cutwater.core.errors import UsageError
from cutwater.core.events.rejection import MAX_KEY_BYTES
from cutwater.core.job.job import Job
from cutwater.core.job.kinds.frequent_items import kept_texts
from cutwater.core.job.measures import THETA, THETA_BYTES_MAX, Measure

ROW_BYTES_MAX = 16 * 1024 * 1024
"""The largest row (several measures may each keep a text of an event), and the largest record of the protocol."""
_ESCAPED = 6
"""Bytes of an escaped control character in JSON output. It counts for every output format, because a repeated
epoch must reject the same events, and rows outlive the setting."""
_BESIDE_BYTES = 64 * 1024
"""A row's escaped key, window and headers, and Kafka's overhead."""
_MEASURE_BYTES = 8 * 1024
"""A measure's name, and its other partials: an HLL sketch has 4 KiB."""
_COUNTED_BYTES_MAX = 1_024
"""The longest text that a `top` counts: a row keeps hundreds of them."""


def text_bytes_max(measures: Sequence[Measure]) -> int:
    """Return the most bytes (in UTF-8) of a text that one of `measures` keeps, if it keeps one."""
    texts = sum(1 for one in measures if one.output == "string")
    counted = _ESCAPED * _COUNTED_BYTES_MAX * sum(map(kept_texts, measures))
    sketched = THETA_BYTES_MAX * sum(1 for one in measures if one.sketch == THETA)
    room = ROW_BYTES_MAX - _BESIDE_BYTES - _MEASURE_BYTES * len(measures) - counted - sketched
    return room // (_ESCAPED * max(1, texts))


def require_room(measures: Sequence[Measure]) -> None:
    """Raise UsageError if a row of these measures has no room for texts of MAX_KEY_BYTES."""
    if text_bytes_max(measures) < MAX_KEY_BYTES:
        raise UsageError(
            f"{len(measures)} measures have no room in a row of {ROW_BYTES_MAX:,} bytes: declare fewer, above all "
            "fewer that keep a text, or fewer items of a 'top'"
        )


def too_long(job: Job) -> dict[str, tuple[int, str]]:
    """Return (bound, rule) by field, for fields whose text may be longer than its measure can keep.

    Few jobs have any, because a text is no longer than its event.
    """
    most = text_bytes_max(job.measures)
    keeping = [(bound, one) for one in job.measures if (bound := _text_bound(one, most))]
    keeping.sort(key=lambda pair: -pair[0])  # of two measures of one field the last, with the least bound, counts
    return {
        one.field: (bound, f"has more than {bound} bytes, which is what measure '{one.name}' may keep of a text")
        for bound, one in keeping
        if one.field and job.max_event_bytes > bound
    }


def _text_bound(measure: Measure, most: int) -> int:
    """Return the most bytes of a text that this measure keeps; 0 if it keeps none."""
    if kept_texts(measure):
        return _COUNTED_BYTES_MAX
    return most if measure.output == "string" else 0
