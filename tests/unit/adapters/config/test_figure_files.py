"""YAML files of numbers, as of a machine or a price list."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutwater.adapters.config.figure_files import read_figures
from cutwater.core.errors import UsageError
from cutwater.core.sizing.costs import Prices
from cutwater.core.sizing.machine import Machine


def written(folder: Path, text: str) -> Path:
    (folder / "figures.yaml").write_text(text, encoding="utf-8")
    return folder / "figures.yaml"


def test_a_figure_that_is_left_out_has_its_default(tmp_path: Path) -> None:
    found = read_figures(written(tmp_path, "cores: 16\nrow_us: 12\n"), Machine)
    assert (found.cores, found.row_us, found.event_us) == (16, 12.0, Machine().event_us)
    assert isinstance(found.row_us, float)
    assert read_figures(written(tmp_path, "currency: EUR\ncore_hour: 0\n"), Prices) == Prices("EUR")
    assert read_figures(written(tmp_path, "restore_bytes_per_s: 1.5e9\n"), Machine).restore_bytes_per_s == 1.5e9


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("cores: 2\nrow_su: 3\n", r"figures\.yaml:2: 'row_su' is no figure of this file; .* mean 'row_us'"),
        ("\nrow_us: fast\n", r":2: 'row_us' is 'fast'; allowed: a number above 0 to"),
        ("row_us: 0\n", r":1: 'row_us' is '?0'?; allowed"),
        ("row_us: .nan\n", "allowed: a number above 0 to"),
        ("row_us: .inf\n", "allowed: a number above 0 to"),
        ("row_us: true\n", "allowed: a number above 0 to"),
        ("row_us: [1]\n", "allowed: a number above 0 to"),
        ("cores: 1.5\n", "allowed: a whole number above 0 to"),
        ("cores: .inf\n", "allowed: a whole number above 0 to"),
        ("cores: 1\ncores: 2\n", "cores"),
        ("1: 2\n", "is no figure of this file"),
        ("- 1\n", "a file of figures has a name and a number in each line"),
        ("", "a file of figures has a name and a number in each line"),
        ("utilisation: 60\n", r"'utilisation' is '?60'?; allowed: a number above 0 to 1"),
    ],
)
def test_what_is_no_figure_is_named_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        read_figures(written(tmp_path, text), Machine)


def test_a_currency_is_a_short_text(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="allowed: a text of up to 10 characters"):
        read_figures(written(tmp_path, "currency: 5\n"), Prices)
