"""CHANGELOG.md: releases, groups, and one short line per change."""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
GROUPS = ["Added", "Changed", "Fixed", "Security"]
WORDS_MAX = 25


def test_the_newest_release_is_that_of_the_package() -> None:
    """Below `Unreleased` stands the version of pyproject.toml, with a date."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    first, second, *_ = re.findall(r"^## (.+)$", CHANGELOG, re.MULTILINE)
    assert first == "Unreleased"
    assert re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", second)


def test_changes_are_grouped() -> None:
    """Each release uses some of the four groups, in their order."""
    for release in re.split(r"^## ", CHANGELOG, flags=re.MULTILINE)[1:]:
        groups = re.findall(r"^### (.+)$", release, re.MULTILINE)
        assert all(GROUPS.index(one) < GROUPS.index(other) for one, other in pairwise(groups))
        assert set(groups) <= set(GROUPS)


def test_each_change_is_one_short_line() -> None:
    """At most 25 words, ended by a full stop; nothing runs on over two lines."""
    lines = CHANGELOG.partition("## Unreleased")[2].splitlines()
    changes = [line for line in lines if line.startswith("- ")]
    assert changes
    assert [line for line in changes if len(line.removeprefix("- ").split()) > WORDS_MAX] == []
    assert [line for line in changes if not line.endswith(".")] == []
    assert [line for line in lines if line.startswith((" ", "*"))] == []
