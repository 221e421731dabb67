"""Whether two rows of different generations mean the same."""

from __future__ import annotations

from cutwater.adapters.avro.codec import HEADER_BYTES, Codec
from cutwater.core.events.formats import CONFLUENT_HEADER_BYTES, is_confluent
from cutwater.core.generations.job_change import compare_jobs
from cutwater.core.generations.seed_change import same_row
from cutwater.core.job.job import Job
from cutwater.core.output.state_diff import Same


def same_row_of(before: Job, after: Job) -> Same:
    """Return whether a row of one job's state is the same as one of another's.

    A generation may have other measures than its parent. Then a row is the same if those of both are, and the
    others are as of a window without events: readers know the row already, and miss nothing.
    """
    if before.state_schema == after.state_schema:
        return _same_row
    old, new = (Codec(one.state_schema) for one in (before, after))
    says_the_same = same_row(compare_jobs(before, after).seeds, after.measures)

    def same(one: bytes, two: bytes) -> bool:
        return says_the_same(old.decode_body(_body(one), 0), new.decode_body(_body(two), 0))

    return same


def _same_row(one: bytes, two: bytes) -> bool:
    # Equal except for the framing, which may change between generations.
    return one == two or _body(one) == _body(two)


def _body(value: bytes) -> bytes:
    return value[CONFLUENT_HEADER_BYTES if is_confluent(value) else HEADER_BYTES :]
