"""Orders to correct rows of the output: files that the publisher executes one by one, each with a milestone.

A file stays until the transaction that corrects its rows is committed. A publisher that dies in between executes
it again, which changes nothing: the rows then have the same values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

from cutwater.core.checks.state_comparison import RowName
from cutwater.core.errors import MachineError

ROWS_MAX = 100_000
"""The most rows of one order, which the publisher holds in memory."""


class CorrectionOrders:
    """The orders for one job's publisher, in the folder of its data. Each has a file of its own, so that none
    replaces another, and the publisher removes only what it has executed."""

    def __init__(self, data_dir: Path, job: str) -> None:
        self.folder = data_dir / "corrections" / job
        self._read: Path | None = None

    def write(self, rows: Iterable[RowName]) -> Path:
        """Order the correction of these rows, and return the file, which exists until that is done. Raises
        MachineError if it cannot be written."""
        path = self.folder / f"{uuid4().hex}.json"
        unfinished = path.with_suffix(".tmp")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            unfinished.write_text(json.dumps({"rows": [list(one) for one in rows]}), encoding="utf-8")
            unfinished.replace(path)
        except OSError as error:
            raise MachineError(f"{path} cannot be written: {error.strerror}") from None
        return path

    def rows(self) -> list[RowName]:
        """Return the rows of one order; none without an order. Raises MachineError if its file is unreadable."""
        self._read = min(self.folder.glob("*.json"), default=None)
        if self._read is None:
            return []
        try:
            ordered = json.loads(self._read.read_text(encoding="utf-8"))["rows"]
            return [RowName(str(key), int(start), int(end)) for key, start, end in ordered]
        except FileNotFoundError:  # withdrawn at this moment
            return []
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise MachineError(f"{self._read} is no order of corrections ({error}): delete it") from None

    def complete(self) -> None:
        """Remove the order that was read last."""
        if self._read is None:
            return
        try:
            self._read.unlink(missing_ok=True)
        except OSError as error:
            raise MachineError(f"{self._read} cannot be removed: {error.strerror}") from None
