"""The events of a load one after the other, some of them late, out of order, unusable or twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from cutwater.core.job.job import Job
from cutwater.core.load.event_draw import EventDraw
from cutwater.core.load.key_draw import Chance, KeyDraw
from cutwater.core.load.time_field import TimeField
from cutwater.core.load.value_draw import Occasion
from cutwater.core.sizing.skew import KeySkew

PLAIN, LATE, BAD, DUPLICATE = "plain", "late", "bad", "duplicate"
KINDS = (PLAIN, LATE, BAD, DUPLICATE)
GARBAGE_BYTES = 16
"""Of a record that nobody can decode."""
FAR_AHEAD_MS = 3_600_000
"""How much further ahead than `max_ahead` the time of an unusable event is."""


@dataclass(frozen=True)
class Flaws:
    """Shares of the events, 0 to 1."""

    late: float = 0.0
    """Events whose windows have closed, if the load goes on for longer than the job's lateness."""
    bad: float = 0.0
    """Events that become dead letters: half of them cannot be decoded, the others are too far ahead."""
    duplicate: float = 0.0
    """Events that are sent twice. Cutwater counts both."""
    disorder_ms: int = 0
    """Event times are up to so much earlier than now."""


NO_FLAWS = Flaws()


class Drawn(NamedTuple):
    kind: str
    event: Mapping[str, Any] | None
    """None if `value` is the record's value."""
    value: bytes = b""


class Events(Protocol):
    def next(self, at_s: float, at_ms: int) -> Drawn:
        """Return the next event: at so many seconds from the start, which is such a moment since 1970."""
        ...


class LoadDraw:
    """Draws events of a job's schema. Implements `Events`."""

    def __init__(
        self,
        job: Job,
        skew: KeySkew,
        chance: Chance,
        flaws: Flaws = NO_FLAWS,
        move_s: float | None = None,
        time: TimeField | None = None,
    ) -> None:
        """`move_s`: as of `KeyDraw`. `time`: the field of the event time; the job's own form of it if None."""
        self._events = EventDraw(job, skew.keys, time or TimeField(job))
        self._keys = KeyDraw(skew, chance, move_s)
        self._flaws, self._chance = flaws, chance
        self._closed_ms = job.window.size_ms + job.lateness_ms + (job.amend_for_ms or 0) + flaws.disorder_ms
        self._size_ms, self._ahead_ms = job.window.size_ms, job.max_ahead_ms + FAR_AHEAD_MS
        self._again: Drawn | None = None

    def next(self, at_s: float, at_ms: int) -> Drawn:
        if self._again is not None:
            again, self._again = self._again, None
            return again
        drawn = self._chance.random()
        bad, late = self._flaws.bad, self._flaws.bad + self._flaws.late
        if drawn < bad / 2:
            return Drawn(BAD, None, self._garbage())
        at_ms -= self._below(self._flaws.disorder_ms)
        if drawn < bad:
            return Drawn(BAD, self._event(at_s, at_ms + self._ahead_ms))
        if drawn < late:
            return Drawn(LATE, self._event(at_s, at_ms - self._closed_ms - self._below(self._size_ms)))
        found = Drawn(PLAIN, self._event(at_s, at_ms))
        if self._flaws.duplicate and self._chance.random() < self._flaws.duplicate:
            self._again = found._replace(kind=DUPLICATE)
        return found

    def _event(self, at_s: float, at_ms: int) -> Mapping[str, Any]:
        return self._events.make(Occasion(self._keys.at(at_s), at_ms * 1_000, self._chance))

    def _garbage(self) -> bytes:
        # No first byte of Avro's and Confluent's framings, and no JSON.
        return b"\xff" + self._chance.randrange(1 << 62).to_bytes(GARBAGE_BYTES - 1, "big")

    def _below(self, most: int) -> int:
        return self._chance.randrange(most) if most > 0 else 0
