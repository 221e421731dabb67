"""The decision records have one form, and their index lists them all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs/decisions"
RECORDS = sorted(path for path in FOLDER.glob("*.md") if path.name != "index.md")
WORDS_MAX = 220


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem)
def test_every_record_has_one_form_and_half_a_page(record: Path) -> None:
    """A number, a title, context, decision and consequence, each with text, and the code it is about."""
    text = record.read_text(encoding="utf-8")
    assert re.fullmatch(r"\d{4}-[a-z0-9]+(-[a-z0-9]+)*", record.stem)
    assert re.findall(r"^# (\d{4})\. \S", text, re.MULTILINE) == [record.stem[:4]]
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    assert parts[1::2] == ["Context", "Decision", "Consequence"]
    assert all(len(part.split()) >= 5 for part in parts[2::2])
    assert re.search(r"^Code: `", text, re.MULTILINE)
    assert len(text.split()) <= WORDS_MAX


def test_numbers_are_not_used_twice() -> None:
    """Each record has a number of its own."""
    numbers = [record.stem[:4] for record in RECORDS]
    assert len(numbers) == len(set(numbers)) >= 60


def test_the_index_lists_every_record_with_its_title() -> None:
    """Once, under an area, in the order of the numbers."""
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    titles = {
        record.name: record.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ").replace(". ", " ", 1)
        for record in RECORDS
    }
    assert re.findall(r"^- \[(.+)\]\((.+\.md)\)$", index.partition("\n## ")[2], re.MULTILINE) == [
        (title, name) for name, title in sorted(titles.items())
    ]
