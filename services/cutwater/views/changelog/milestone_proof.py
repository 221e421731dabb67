"""Proof of the rows read for a milestone, by count and digest. A mismatch names partition and offsets."""

from __future__ import annotations

from cutwater.adapters.hashing import row_hash
from cutwater.core.errors import CutwaterError, DivergenceError
from cutwater.core.protocol.changelog_rows import WRITER_HEADER, fold, signed
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import mismatch
from cutwater.core.state.partition_share import Proof, partition_faults
from cutwater.views.changelog.proof import KEYS_MAX, writer_of
from cutwater.views.changelog.range_reader import Ranges


def prove(ranges: Ranges, milestone: Milestone, since: Cut, rows: int, digest: int) -> None:
    """Raise DivergenceError if count or digest (unsigned) of the rows read are not those of the milestone.

    `since`: the cut from which they were read. The error names what the log has lost, by its evidence, and the
    partitions and offsets whose rows differ. The range is read again for that.
    """
    wrong = mismatch(milestone, rows, signed(digest), ranges.partitions)
    if wrong:
        where = [*_losses(ranges, milestone), *_faults(ranges, milestone, since)]
        raise DivergenceError(
            f"{ranges.topic}: {wrong}. {'; '.join(where)}. Rows were lost, changed or added; the view still shows "
            "its last milestone. Start a new generation from the last milestone that was shown."
        )


def _losses(ranges: Ranges, milestone: Milestone) -> list[str]:
    """Return what the evidence shows as lost; nothing if the brokers do not answer."""
    try:
        return ranges.find_losses(milestone)
    except CutwaterError:
        return []


def _faults(ranges: Ranges, milestone: Milestone, since: Cut) -> list[str]:
    """Return a text for each partition whose rows differ, or the offsets read if that cannot be found out."""
    bounds = ranges.bounds(since, milestone)
    found: dict[int, Proof] | None = None
    # The rows of a long restore do not fit the memory, and the stop must not wait for a second restore.
    if sum(end - first for first, end in bounds.values()) <= KEYS_MAX:
        try:
            found = _count_by_partition(ranges, milestone, since)
        except DivergenceError:
            raise
        except CutwaterError:
            found = None
    return partition_faults(ranges.topic, milestone, bounds, found)


def _count_by_partition(ranges: Ranges, milestone: Milestone, since: Cut) -> dict[int, Proof]:
    """Count the milestone's own rows again, by partition; each key by its last row."""
    wanted = [(WRITER_HEADER, writer_of(milestone))]
    last: dict[int, dict[bytes, int]] = {at: {} for at in ranges.bounds(since, milestone)}
    for partition, messages in ranges.between(since, milestone).pieces():
        for one in messages:
            key, value = one.key(), one.value()
            if key is not None and value is not None and one.headers() == wanted:
                last[partition][key] = row_hash(key, value)
    return {at: Proof(len(rows), signed(fold(rows.values()))) for at, rows in last.items()}
