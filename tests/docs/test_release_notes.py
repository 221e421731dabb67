"""CHANGELOG.md: releases, groups, and one short line per change."""

from __future__ import annotations

import re
import tomllib
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

from support.releases import releases

ROOT = Path(__file__).parents[2]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
GROUPS = ["Added", "Changed", "Fixed", "Security"]
WORDS_MAX = 25
SIZE_MAX = 2_000_000


def test_the_newest_release_is_that_of_the_package() -> None:
    """Below `Unreleased` stands the version of pyproject.toml, with a date, or the one before a `.dev` version."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    first, second, *_ = re.findall(r"^## (.+)$", CHANGELOG, re.MULTILINE)
    assert first == "Unreleased"
    newest = re.fullmatch(r"(\d+\.\d+\.\d+) \(\d{4}-\d\d-\d\d\)", second)
    assert newest
    number, dev, _ = version.partition(".dev")
    assert newest[1] < number if dev else newest[1] == number


def test_the_newest_release_is_kept_for_the_upgrade_test() -> None:
    """Its wheel is the one of the lock, and small enough for the repository."""
    newest, *_ = re.findall(r"^## (\d\S+) ", CHANGELOG, re.MULTILINE)
    kept = releases()
    assert newest in {one.version for one in kept}
    for one in kept:
        wheel = one.wheel.read_bytes()
        assert (sha256(wheel).hexdigest(), len(wheel)) == (one.sha256, one.size)
        assert one.size < SIZE_MAX


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
