"""A Parquet file that several rehydrators fill: it says what any of them lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from cutwater.client.export.parquet import Part, write
from cutwater.core.errors import UsageError
from cutwater.core.protocol.generation import Token
from cutwater.core.state.selection import Selection
from support.views.changelogs import GENERATION, make_job

TOKEN = Token(GENERATION, 3)


def part(name: str, lower: str | None = None, selection: Selection | None = None, at: Token = TOKEN) -> Part:
    milestone: dict[str, Any] = {"token": str(at), "lower_bound": lower, "age_ms": 1, "standby": False}
    return Part(name, at, milestone, frozenset({0}), selection, iter(()))


def metadata(path: Path) -> dict[str, str]:
    found = pyarrow.parquet.read_schema(path).metadata
    return {name.decode().removeprefix("cutwater."): text.decode() for name, text in found.items()}


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ((None, None), None),
        ((None, "2026-01-02T00:00:00Z"), "2026-01-02T00:00:00Z"),
        (("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"), "2026-01-02T00:00:00Z"),
        (("2026-01-02T00:00:00Z", 253_402_300_800_000), "253402300800000"),
    ],
)
def test_the_highest_lower_bound_is_that_of_the_file(
    bounds: tuple[Any, Any], said: str | None, tmp_path: Path
) -> None:
    """Above it every partition is whole; below it one of them is not."""
    out = tmp_path / "state.parquet"
    write(make_job(tmp_path)[0], [part("a", bounds[0]), part("b", bounds[1])], out)
    assert metadata(out).get("lower_bound") == said


def test_selections_do_not_make_one_file(tmp_path: Path) -> None:
    """Its rows would look like all; alone, or each in its own file, they are named."""
    some = Selection.of(["JFK"], [], None)
    out = tmp_path / "state.parquet"
    with pytest.raises(UsageError, match="name one of them, or a folder"):
        write(make_job(tmp_path)[0], [part("a"), part("b", selection=some)], out)
    assert not out.exists()
    write(make_job(tmp_path)[0], [part("b", selection=some)], out)
    assert "JFK" in metadata(out)["selection"]


def test_milestones_do_not_make_one_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="one milestone"):
        write(make_job(tmp_path)[0], [part("a"), part("b", at=Token(GENERATION, 4))], tmp_path / "state.parquet")
