"""Which decoding the next query starts with: that of the epoch it must finish, else the job file's."""

from __future__ import annotations

from typing import Any

from cutwater.core.decoding import Decoding
from cutwater_spark.checkpoint import Checkpoint


class Decodings:
    """The decodings of a generation, kept beside its checkpoint; the newest is that of what was begun last."""

    def __init__(self, checkpoint: Checkpoint, attempt: int, wanted: Decoding, log: Any) -> None:
        self._checkpoint = checkpoint
        self._attempt = attempt
        self._wanted = wanted
        self._log = log

    def choose(self, begun: int | None) -> tuple[Decoding, int | None]:
        """The decoding of the query that starts next, and the epoch after which it is to be stopped, if any.

        `begun`: the epoch of which earlier queries have written something, and which they have not finished.
        """
        text = self._checkpoint.newest_decoding()
        kept = Decoding.parse(text) if text else None
        if kept == self._wanted:
            return self._wanted, None
        if kept is not None and begun is not None:
            self._log.warning(
                f"epoch {begun} is finished first with the decoding that it was begun with",
                changed=kept.changes(self._wanted),
            )
            return kept, begun
        # Before the query starts: rows never stand on the changelog without the decoding that made them.
        self._checkpoint.keep_decoding(self._attempt, self._wanted.text)
        return self._wanted, None
