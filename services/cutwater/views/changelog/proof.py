"""Is what was read for a milestone what the milestone proves, and can it be whole? For every reader of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from zlib import crc32

from cutwater.adapters.hashing import row_hash
from cutwater.core.driver.row_proof import Writer, breach, overgrown
from cutwater.core.errors import DivergenceError
from cutwater.core.protocol.records import Milestone
from cutwater.core.protocol.row_digest import fold, signed
from cutwater.core.state.backlog import contained, fresh, mismatch
from cutwater.core.state.partition_share import Partitions

KEYS_MAX = 500_000
"""Keys held at a time when repeated rows of a large milestone are told apart."""
KNOWN_MAX = 10_000
"""Headers that are remembered as looked at."""


class Overtaken(Exception):
    """Compaction may have taken values below this milestone's cut.

    `looked`: what stands above the cut says so, and a later milestone must be read instead. Else the milestone was
    young when the reading began and nobody looked: read again, it may be found whole.
    """

    def __init__(self, milestone: Milestone, looked: bool) -> None:
        super().__init__(str(milestone.token))
        self.looked = looked


class Below:
    """Who may have written what stands below a milestone's cut, each header looked at once."""

    def __init__(self, milestone: Milestone) -> None:
        self._last = last_writer(milestone)
        self._known: set[tuple[bytes | None, bool]] = set()

    def require(self, place: Callable[[], str], header: bytes | None, live: bool = True) -> None:
        """Raise DivergenceError, naming the place, for what cannot stand there; a tombstone is not `live`.

        Of a tombstone below the horizon nobody asks whose it is, but it may say that the log has lost its end.
        """
        if (header, live) in self._known:
            return
        why = breach(header, self._last) if live else overgrown(header, self._last)
        if why:
            raise DivergenceError(
                f"{place()} {why}. What was shown before stays. Start a new generation from a milestone that "
                "does not need what is missing: an earlier one, or one with a snapshot."
            )
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known.add((header, live))


def last_writer(milestone: Milestone) -> Writer:
    """Who wrote this milestone's own rows."""
    return Writer(milestone.generation, milestone.attempt, milestone.epoch)


def writer_of(milestone: Milestone) -> bytes:
    """The header that the rows of this milestone's own epoch and attempt carry."""
    return last_writer(milestone).header


def require_whole(milestone: Milestone, first_above_ms: Mapping[int, int | None], now_ms: int) -> None:
    """Raises Overtaken. `first_above_ms` is empty where nobody looked above the cut."""
    looked = bool(first_above_ms)
    if not (fresh(milestone, now_ms) or (looked and contained(first_above_ms.values(), now_ms))):
        raise Overtaken(milestone, looked)


def require_schema(topic: str, milestone: Milestone, fingerprint: str) -> None:
    """Raises DivergenceError when the milestone's rows are of another schema than the job file's.

    A value that is framed with a registry's number is known by this alone: numbers differ from region to region,
    and a state that needs a registry to be read is lost with it.
    """
    if milestone.schema_fingerprint != fingerprint:
        raise DivergenceError(
            f"{topic}: the values of milestone {milestone.token} are of schema {milestone.schema_fingerprint}, "
            f"and the job file's measures say {fingerprint}; use the job file that the driver runs with"
        )


def prove(topic: str, milestone: Milestone, rows: int, digest: int, partitions: Partitions | None = None) -> None:
    """Raises DivergenceError when count or digest (unsigned) are not those that the milestone says.

    `partitions`: those that were read; None for all.
    """
    wrong = mismatch(milestone, rows, signed(digest), partitions)
    if wrong:
        raise DivergenceError(
            f"{topic}: {wrong}. Rows were lost, changed or added; what was shown before stays. Start a new "
            "generation from the last milestone that was shown."
        )


def counted_once(read: Callable[[], Iterable[tuple[bytes, bytes]]], rows_max: int) -> tuple[int, int]:
    """Count and digest (unsigned) of (key, value) pairs, each key by its last value: a task may have run twice.

    By passes over a slice of the keys each, as memory demands: `read` begins anew each time. `rows_max`: the most
    keys there can be; where there are more, the count is above it and the digest of some only.
    """
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
