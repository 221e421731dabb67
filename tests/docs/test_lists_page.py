"""The reasons of dead letters are on the page of the format."""

from __future__ import annotations

from cutwater.core.events.rejection import REASONS
from support.pages import text_of


def test_the_page_of_the_format_lists_every_reason() -> None:
    """With the very words that stand on the topic."""
    page = text_of("docs/FORMAT.md")
    assert [one for one in REASONS if f"| `{one}` |" not in page] == []
