"""The choice of the next query's decoding: that of the epoch it must finish, else the job file's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cutwater.core.job.event_decoding import Decoding
from cutwater_spark.checkpoint import Checkpoint


class Decodings:
    """A generation's decodings, stored beside its checkpoint; the newest is of the last started epoch."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        attempt: int,
        wanted: Decoding,
        log: Any,
        holds: bool = False,
        first_floor: Callable[[], int] | None = None,
    ) -> None:
        """`wanted`: the job file's decoding. `holds`: whether the job file has a `max_jump`. `first_floor`:
        returns now's floor of a generation that has stored none; None if Spark's watermark closes its windows."""
        self._holds, self._first_floor = holds, first_floor
        self._own = False
        self._checkpoint = checkpoint
        self._attempt = attempt
        self._wanted = wanted
        self._log = log

    def choose(self, begun: int | None) -> tuple[Decoding, int | None]:
        """Return the next query's decoding, and the epoch after which to stop that query, if any.

        `begun`: the epoch that earlier queries have written in part. With a `max_jump`, the bound of held events
        is the last one decided.
        """
        kept = self._read_newest()
        if kept is not None and self._holds:
            self._wanted = self._wanted.holding(kept.held_ms)
        if self._first_floor is not None:
            stands = kept if kept is not None and kept.floor_ms is not None else None
            # Asked each time: the epochs that are finished first may close more windows.
            floor_ms = self._first_floor() if stands is None or stands.floor_ms is None else stands.floor_ms
            self._wanted = self._wanted.closing(floor_ms, stands is not None and stands.cleans)
        if kept is not None and kept != self._wanted and begun is not None:
            self._log.warning(
                f"epoch {begun} is finished first, with the decoding that it was started with",
                changed=kept.changes(self._wanted),
            )
            self._store_own(kept)
            return kept, begun
        # Before the query starts: the changelog never holds rows whose decoding is not stored.
        if kept != self._wanted:
            self._keep(self._wanted)
        self._store_own(self._wanted)
        return self._wanted, None

    def hold(self, held_ms: int | None) -> None:
        """Store the event time from which the next query holds events, or None; before any row is written so."""
        self._keep(self._wanted.holding(held_ms))

    def raise_floor(self, floor_ms: int) -> None:
        """Store the floor of the next query, which cleans; before any of its epochs is planned."""
        self._keep(self._wanted.closing(floor_ms, cleans=True))

    def end_cleaning(self) -> None:
        """Store that the windows up to the floor are evicted."""
        self._keep(self._wanted.closing(self._wanted.floor_ms))

    def _read_newest(self) -> Decoding | None:
        text = self._checkpoint.newest_decoding()
        return Decoding.parse(text) if text else None

    def _keep(self, decoding: Decoding) -> None:
        self._checkpoint.keep_decoding(self._attempt, decoding.text)
        self._own = True

    def _store_own(self, decoding: Decoding) -> None:
        """Store a decoding of this attempt's own, if bounds can change.

        Otherwise an older driver that has not noticed its fencing could store a newer one, and the next attempt
        would finish this attempt's epoch with that.
        """
        if (self._holds or self._first_floor is not None) and not self._own:
            self._keep(decoding)
