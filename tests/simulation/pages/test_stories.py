"""The stories of the page docs/_extra/simulator are those of the simulation as it is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from simulation.guards import GUARDS
from simulation.histories import Climate
from simulation.pages import stories

FOLDER = Path(__file__).parents[3] / "docs/_extra/simulator"
SCRIPT = (FOLDER / "stories.js").read_text(encoding="utf-8")
WRITTEN = json.loads(SCRIPT.removeprefix(stories.PREFIX).rstrip(";\n"))
BY_NAME = {one.name: one for one in GUARDS}


def test_every_chosen_guard_has_its_story() -> None:
    assert [one["guard"] for one in WRITTEN["stories"]] == list(stories.CHOSEN)
    assert all(isinstance(BY_NAME[name].way, Climate) for name in stories.CHOSEN)
    assert WRITTEN["columns"] == list(stories.COLUMNS)


@pytest.mark.variations
@pytest.mark.parametrize("written", WRITTEN["stories"], ids=stories.CHOSEN)
def test_a_story_ends_as_it_is_written(written: dict[str, Any]) -> None:
    """Right with the guard and wrong without it. `python -m simulation.pages.stories FILE` writes them anew."""
    made = stories.story(BY_NAME[written["guard"]])
    assert json.loads(json.dumps(made)) == written


def test_the_page_loads_nothing_from_elsewhere() -> None:
    """And nothing that is written in the page itself runs, by its policy."""
    page = (FOLDER / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"https?://|<script>|<style>|\son\w+=", page)
    for name in re.findall(r'(?:src|href)="([^"]+)"', page):
        assert (FOLDER / name).is_file(), name
