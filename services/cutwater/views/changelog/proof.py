"""Checks that the rows read for a milestone are complete, and that they are of its job and its writers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from zlib import crc32

from cutwater.adapters.avro.codec import crc64
from cutwater.adapters.hashing import row_hash
from cutwater.core.driver.row_proof import breach, overgrown
from cutwater.core.errors import DivergenceError
from cutwater.core.job.job import Job
from cutwater.core.protocol.changelog_rows import Writer, fold
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import contained, fresh

KEYS_MAX = 500_000
"""Keys held at a time to count repeated rows of a large milestone once."""
KNOWN_MAX = 10_000
"""The most headers remembered as checked."""


class Overtaken(Exception):
    """Compaction may have removed values below this milestone's cut. `looked`: records above the cut show that,
    so a later milestone must be read. Otherwise the milestone was too young for a check when the read started,
    and another read may find it complete."""

    def __init__(self, milestone: Milestone, looked: bool) -> None:
        super().__init__(str(milestone.token))
        self.looked = looked


class WriterCheck:
    """Check of the writers of the records below a milestone's cut, once for each header."""

    def __init__(self, milestone: Milestone) -> None:
        self._last = last_writer(milestone)
        self._known: set[tuple[bytes | None, bool]] = set()

    def require(self, place: Callable[[], str], header: bytes | None, live: bool = True) -> None:
        """Raise DivergenceError with the place if this writer cannot have written there. `live`: False for a
        tombstone. A tombstone may have any writer except a later one of this generation, which shows that the
        log has lost its end."""
        if (header, live) in self._known:
            return
        why = breach(header, self._last) if live else overgrown(header, self._last)
        if why:
            raise DivergenceError(
                f"{place()} {why}. The view still shows its last milestone. Start a new generation from a "
                "milestone that does not need the missing records: an earlier one, or one with a snapshot."
            )
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known.add((header, live))


def last_writer(milestone: Milestone) -> Writer:
    return Writer(milestone.generation, milestone.attempt, milestone.epoch)


def writer_of(milestone: Milestone) -> bytes:
    """Return the header of the rows of this milestone's own epoch and attempt."""
    return last_writer(milestone).header


def require_whole(milestone: Milestone, first_above_ms: Mapping[int, int | None], now_ms: int) -> None:
    """Raise Overtaken if rows may be lost. `first_above_ms`: empty if the log above the cut was not read."""
    looked = bool(first_above_ms)
    if not (fresh(milestone, now_ms) or (looked and contained(first_above_ms.values(), now_ms))):
        raise Overtaken(milestone, looked)


def require_schema(topic: str, milestone: Milestone, job: Job) -> None:
    """Raise DivergenceError if the milestone's rows have another schema than the job file's, or other panes.

    This is the only schema check of values framed with a registry id: ids differ between regions, and a state that
    needs a registry to be read is lost with it.
    """
    fingerprint = crc64(job.state_schema).hex()
    if milestone.schema_fingerprint != fingerprint:
        raise DivergenceError(
            f"{topic}: the values of milestone {milestone.token} have schema {milestone.schema_fingerprint}, but "
            f"the job file's measures have {fingerprint}; use the job file that the driver runs with"
        )
    if job.overlap_ms and milestone.definition != job.fingerprint:
        raise DivergenceError(
            f"{topic}: the rows of milestone {milestone.token} are of definition {milestone.definition}, but the "
            f"job file's panes are of {job.fingerprint}; use the job file that the driver runs with. Rows that "
            "have whole sliding windows are of an earlier version: start the job again under another name"
        )


def counted_once(read: Callable[[], Iterable[tuple[bytes, bytes]]], rows_max: int) -> tuple[int, int]:
    """Return count and digest (unsigned) of (key, value) pairs, each key by its last value, since a task may
    have run twice. Makes several passes if the keys do not fit the memory; `read` starts again for each.
    `rows_max`: the most keys expected; if there are more, the count exceeds it and the digest is of some only."""
    rows = digest = 0
    passes = max(1, -(-rows_max // KEYS_MAX))
    for number in range(passes):
        last: dict[bytes, int] = {}
        for key, value in read():
            if crc32(key) % passes == number:
                last[key] = row_hash(key, value)
            if rows + len(last) > rows_max:
                break
        rows, digest = rows + len(last), fold(last.values(), digest)
    return rows, digest
