"""The records of a row while compaction is at work: of a window of panes each pane is a key of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import UnavailableError
from cutwater.core.past.row_accounts import RowRecord
from cutwater.core.protocol.topics import MIN_COMPACTION_LAG_MS
from cutwater.core.state.backlog import MARGIN_MS
from cutwater.past import row_logs
from cutwater.past.row_logs import RowLogs, RowOfKey
from cutwater.views.store.key_layout import Window
from support.views.changelogs import GENERATION, make_job

NOW_MS = 10 * MIN_COMPACTION_LAG_MS
YOUNG_MS = NOW_MS - MIN_COMPACTION_LAG_MS + MARGIN_MS


class Compacted(RowLogs):
    """Reads `records` each time; of those before `gone` the log has none any more once they are read."""

    records: Sequence[RowRecord] = ()
    gone: Sequence[int] = ()

    def _changelog_records(self, topic: str, partition: int) -> tuple[int, list[RowRecord]]:
        return 0, [*self.records]

    def _are_still_there(self, topic: str, partition: int, offsets: Sequence[int]) -> bool:
        return not set(offsets) & set(self.gone)


def record(offset: int, pane: int, written_ms: int = 0) -> RowRecord:
    return RowRecord(offset, pane, b"x", written_ms)


@pytest.mark.parametrize(
    ("gone", "whole"), [((), True), ((5,), False), ((10,), False), ((5, 10), False), ((40,), True)]
)
def test_a_pane_that_is_compacted_while_it_is_read_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: tuple[int, ...], whole: bool
) -> None:
    """Else the records read of it would have a hole in the middle, and be taken for its history without a gap."""
    described: Any = type("Described", (), {"config": {}})
    monkeypatch.setattr(row_logs, "describe_topics", lambda _, names: dict.fromkeys(names, described))
    job = make_job(tmp_path)[0]
    row = RowOfKey(Window("s1", 0, 2), (0, 1, 2))
    logs = Compacted(Cluster("127.0.0.1:1"), job, row, lambda: NOW_MS)
    logs.records = [record(5, 0), record(10, 1), record(20, 0), record(30, 1), record(40, 2, YOUNG_MS + 1)]
    logs.gone = gone
    if whole:
        part = logs.changelog(GENERATION, 3)
        assert part is not None
        assert (part.records, part.young_ms) == (logs.records, YOUNG_MS)
    else:
        with pytest.raises(UnavailableError, match="is being compacted"):
            logs.changelog(GENERATION, 3)
