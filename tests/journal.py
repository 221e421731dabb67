"""What has passed on this very tree: `make test-all RESUME=1` goes on where a run of all tests was interrupted.

A run of all tests takes longer than most interruptions are apart. Its journal names the tree of its commit, and
then each test that has passed, with its seconds.
"""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Passed:
    slow: bool
    seconds: float


def add_options(parser: pytest.Parser) -> None:
    parser.addoption("--journal", type=Path, help="note in this file what has passed")
    parser.addoption(
        "--resume", action="store_true", help="leave out what the journal says has passed on this tree"
    )


def tree(root: Path) -> str | None:
    """Return the hash of the commit's tree; None if files differ from it, or without Git."""
    try:
        changed, found = (
            subprocess.run(
                ["git", *asked], cwd=root, capture_output=True, text=True, timeout=60, check=True
            ).stdout
            for asked in (["status", "--porcelain"], ["rev-parse", "HEAD^{tree}"])
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return None if changed.strip() else found.strip()


@dataclass
class Journal:
    """Of the process that hands out the tests. Workers get the list of those to leave out when they start."""

    path: Path
    tree: str | None
    resume: bool
    passed: dict[str, Passed] = field(default_factory=dict)
    _took: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _not_passed: set[str] = field(default_factory=set)

    def begin(self) -> None:
        """Read what an earlier run has noted. Raises UsageError if it cannot be of this tree."""
        if self.resume and self.tree is None:
            raise pytest.UsageError("--resume: commit first; what has passed is known by the commit's tree")
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        lines = text.split("\n")[:-1]  # the last line may be half of one
        if self.resume and lines[:1] != [self.tree]:
            raise pytest.UsageError(f"--resume: {self.path} has no run of this commit's tree; run all tests")
        if self.resume:
            self.passed = {nodeid: Passed(slow, took_s) for nodeid, slow, took_s in map(json.loads, lines[1:])}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("".join(f"{one}\n" for one in [self.tree, *map(_line, self.passed.items())]))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["passed"] = sorted(self.passed)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._took[report.nodeid] += report.duration
        if not report.passed:
            self._not_passed.add(report.nodeid)
        if report.when == "teardown" and report.nodeid not in self._not_passed:
            entry = Passed("slow" in report.keywords, round(self._took[report.nodeid], 2))
            self.passed[report.nodeid] = entry
            with self.path.open("a", encoding="utf-8") as file:
                file.write(_line((report.nodeid, entry)) + "\n")


def _line(entry: tuple[str, Passed]) -> str:
    nodeid, one = entry
    return json.dumps([nodeid, one.slow, one.seconds])


class _LeaveOut:
    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        out = [one for one in items if one.nodeid in self._names]
        if out:
            items[:] = [one for one in items if one.nodeid not in self._names]
            config.hook.pytest_deselected(items=out)


def begin(config: pytest.Config) -> Mapping[str, Passed]:
    """Note what passes, and leave out what has passed, as the options say. Return what has passed."""
    path, passed = config.getoption("--journal"), dict[str, Passed]()
    names = frozenset(getattr(config, "workerinput", {}).get("passed", ()))
    if path is not None and not hasattr(config, "workerinput"):
        journal = Journal(path, tree(config.rootpath), config.getoption("--resume"))
        journal.begin()
        config.pluginmanager.register(journal)
        passed = dict(journal.passed)
        names = frozenset(passed)
    config.pluginmanager.register(_LeaveOut(names))
    return passed
