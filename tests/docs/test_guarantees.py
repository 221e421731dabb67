"""docs/GUARANTEES.md says what the simulation holds."""

from __future__ import annotations

import re
from pathlib import Path

from simulation import checker
from simulation.__main__ import guards_table

PAGE = (Path(__file__).parents[2] / "docs/GUARANTEES.md").read_text(encoding="utf-8")


def test_the_table_of_guards_is_that_of_the_tests() -> None:
    """Every guard with its invariant, history and anomalies; to renew it: python -m simulation --guards."""
    assert guards_table() in PAGE


def test_every_word_of_the_checker_is_explained() -> None:
    """The page names each anomaly."""
    words = [one for name, one in vars(checker).items() if re.fullmatch("[A-Z_]+", name) and isinstance(one, str)]
    assert not [one for one in words if one not in PAGE]
