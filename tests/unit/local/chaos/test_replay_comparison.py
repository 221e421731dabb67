"""Rows of two Parquet files, in any order."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from cutwater.local.chaos.replay import ReplayComparison, compare_files

ROWS = "SELECT range // 10 AS key, range AS window_start, [range, 1] AS several FROM range(1000)"


def file(folder: Path, name: str, query: str) -> Path:
    path = folder / name
    duckdb.sql(query).write_parquet(str(path))
    return path


@pytest.mark.parametrize(
    ("query", "missing", "unexpected"),
    [
        (f"{ROWS} ORDER BY range DESC", 0, 0),
        (f"{ROWS} WHERE range <> 7", 1, 0),
        (f"{ROWS} UNION ALL SELECT 1, 7, [7, 1]", 0, 1),
        (ROWS.replace("[range, 1]", "[range, CASE range WHEN 7 THEN 2 ELSE 1 END]"), 1, 1),
    ],
)
def test_each_difference_is_counted(tmp_path: Path, query: str, missing: int, unexpected: int) -> None:
    replayed, served = file(tmp_path, "one.parquet", ROWS), file(tmp_path, "other.parquet", query)
    found = compare_files(replayed, served)
    assert found == ReplayComparison(1_000 - missing + unexpected, missing, unexpected)
    assert found.equal == (missing == unexpected == 0)
