"""An order to correct rows of the output: a file that the publisher executes with its next milestone.

The file stays until the transaction that corrects its rows is committed. A publisher that dies in between executes
it again, which changes nothing: the rows then have the same values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from cutwater.core.checks.state_comparison import RowName
from cutwater.core.errors import MachineError

ROWS_MAX = 100_000
"""The most rows of one order, which the publisher holds in memory."""


class CorrectionOrder:
    """The order for one job's publisher, in the folder of its data."""

    def __init__(self, data_dir: Path, job: str) -> None:
        self.path = data_dir / "corrections" / f"{job}.json"
        self._read = ""

    @property
    def pending(self) -> bool:
        """Whether the publisher has not executed it yet."""
        return self.path.exists()

    def write(self, rows: Iterable[RowName]) -> None:
        """Order the correction of these rows. Raises MachineError if the file cannot be written."""
        unfinished = self.path.with_suffix(".tmp")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_text(json.dumps({"rows": [list(one) for one in rows]}), encoding="utf-8")
            unfinished.replace(self.path)
        except OSError as error:
            raise MachineError(f"{self.path} cannot be written: {error.strerror}") from None

    def rows(self) -> list[RowName]:
        """Return the ordered rows; none without an order. Raises MachineError if the file is unreadable."""
        try:
            self._read = self.path.read_text(encoding="utf-8")
            return [RowName(str(key), int(start), int(end)) for key, start, end in json.loads(self._read)["rows"]]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise MachineError(f"{self.path} is no order of corrections ({error}): delete it") from None

    def complete(self) -> None:
        """Remove the order that was read last, unless there is a newer one."""
        try:
            if self.path.read_text(encoding="utf-8") == self._read:
                self.path.unlink(missing_ok=True)
        except FileNotFoundError:
            return
        except OSError as error:
            raise MachineError(f"{self.path} cannot be removed: {error.strerror}") from None
