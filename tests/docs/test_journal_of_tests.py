"""A run of all tests that was interrupted goes on where it was, on the same tree only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CONFTEST = """
import pathlib, journal, seconds

seconds.FILE, seconds.TIERS_FILE = pathlib.Path("build/seconds.json"), pathlib.Path("build/tiers.json")
seconds.LEAST_S = 0

def pytest_addoption(parser):
    journal.add_options(parser)

def pytest_configure(config):
    passed = journal.begin(config)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(seconds.Record(passed))
"""
TRIES = """
import os, pathlib, pytest

@pytest.mark.parametrize("number", range(6))
def test_one(number):
    with pathlib.Path(os.environ["RAN"]).open("a") as file:
        file.write(f"{number} ")
    assert number != 2 or "FAIL" not in os.environ
    if number == 4 and "STOP" in os.environ:
        pytest.exit("interrupted", 2)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with six tests."""
    made = tmp_path / "tree"
    made.mkdir()
    (made / "conftest.py").write_text(CONFTEST)
    (made / "tests" / "some").mkdir(parents=True)
    (made / "tests" / "some" / "test_some.py").write_text(TRIES)
    (made / ".gitignore").write_text("__pycache__\n.pytest_cache\nbuild\n")
    git(made, "init", "-q")
    commit(made)
    return made


def git(tree: Path, *asked: str) -> None:
    name = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *name, *asked], cwd=tree, check=True, capture_output=True)


def commit(tree: Path) -> None:
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "a tree")


def run(tree: Path, *options: str, **environment: str) -> tuple[int, list[int], str]:
    """Pytest's code, the numbers of the tests that ran, and what it said."""
    ran = tree.parent / "ran"
    ran.write_text("")
    asked = [sys.executable, "-m", "pytest", "-q", "--journal=build/tests.passed", *options]
    given = {**os.environ, "PYTHONPATH": str(TESTS), "RAN": str(ran), **environment}
    done = subprocess.run(asked, cwd=tree, env=given, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, sorted(int(one) for one in ran.read_text().split()), done.stdout + done.stderr


def test_a_second_run_has_only_what_has_not_passed(tree: Path) -> None:
    """Neither what failed nor what came behind the interruption has."""
    code, ran, _ = run(tree, FAIL="1", STOP="1")
    assert (code, ran) == (2, [0, 1, 2, 3, 4])
    assert run(tree, "--resume")[:2] == (0, [2, 4, 5])
    assert run(tree)[:2] == (0, [0, 1, 2, 3, 4, 5]), "without the option all of them"


def test_workers_leave_out_the_same(tree: Path) -> None:
    run(tree, FAIL="1", STOP="1")
    assert run(tree, "--resume", "-n", "2")[:2] == (0, [2, 4, 5])


@pytest.mark.parametrize("end", ["]\n", "]"])
def test_half_a_line_has_not_passed(tree: Path, end: str) -> None:
    """A power failure may leave one at the end; a test's own name may end as a line does."""
    run(tree)
    journal = tree / "build" / "tests.passed"
    text = journal.read_text()
    journal.write_text(text[: -len(end)] if end == "]\n" else text[: text.rindex("]", 0, -3) + 1])
    assert run(tree, "--resume")[:2] == (0, [5])


@pytest.mark.parametrize("committed", [False, True])
def test_another_tree_is_refused(tree: Path, committed: bool) -> None:
    """What passed on it says nothing of this one. Without --resume it may be what it likes."""
    run(tree)
    (tree / "other.py").write_text("")
    if committed:
        commit(tree)
    code, ran, said = run(tree, "--resume")
    assert (code, ran) == (4, [])
    assert ("run all tests" if committed else "commit first") in said
    assert run(tree)[:2] == (0, [0, 1, 2, 3, 4, 5])


def test_a_run_in_two_parts_is_recorded_as_one(tree: Path) -> None:
    """The first part, which was interrupted, writes neither file: most tests would be missing."""
    run(tree, STOP="1")
    assert not list((tree / "build").glob("*.json"))
    assert run(tree, "--resume")[:2] == (0, [4, 5])
    [(folder, tiers)] = json.loads((tree / "build" / "tiers.json").read_text()).items()
    assert (folder, tiers["quick"][0]) == ("some", 6)
    assert list(json.loads((tree / "build" / "seconds.json").read_text())) == ["tests/some/test_some.py::test_one"]


def test_a_journal_has_seconds_and_tiers(tree: Path) -> None:
    run(tree)
    lines = (tree / "build" / "tests.passed").read_text().splitlines()[1:]
    assert [json.loads(one)[:2] for one in lines] == [
        [f"tests/some/test_some.py::test_one[{at}]", False] for at in range(6)
    ]
