"""docs/AUDIT.md lists every action with its role."""

from __future__ import annotations

import re

from cutwater.core.access.actions import ACTIONS, OF_THE_CONSOLE
from support.pages import ROOT


def test_every_action_is_on_the_page() -> None:
    """In their order, with the role and what the object is."""
    page = (ROOT / "docs/AUDIT.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+)` \| (\w+) \| ([\w ]+) \|$", page, re.MULTILINE)
    assert rows == [(one.name, str(one.role), one.on) for one in ACTIONS]


def test_the_consoles_buttons_are_those_of_its_page() -> None:
    """Each action of the console is asked for by a page's script."""
    pages = (ROOT / "services/cutwater/console/static/pages").glob("*.js")
    scripts = "".join(path.read_text(encoding="utf-8") for path in pages)
    assert [one.name for one in OF_THE_CONSOLE if f'action: "{one.name}"' not in scripts] == []
