"""What `make test` leaves out, and what it must not leave out."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import seconds
import tiers
from cutwater.cli.verbs import VERBS
from seconds import expected_s
from tiers import part_of, share

ROOT = Path(__file__).parents[2]
SLOW_MARKS = {"slow", "needs"}
CALLS = ("run", "json", "call", "invoke")
"""Functions that call the command line: of `support.cli.commandline.Cli`, of typer's runner, and of tests."""
BROKERLESS = {"calibrate", "config", "console", "policy", "schemas", "size"}
SERVICES = ("commit_signal", "console", "mirror", "publisher", "rehydrator", "watch")


def marks(nodes: list[Any]) -> set[str]:
    """The names of pytest's marks in decorators, or in a file's `pytestmark`."""
    named = (one for node in nodes for one in ast.walk(node) if isinstance(one, ast.Attribute))
    return {one.attr for one in named if isinstance(one.value, ast.Attribute) and one.value.attr == "mark"}


def quick_parts(code: str) -> list[ast.FunctionDef | ast.Assign]:
    """The quick tests of a file, its fixtures, helpers and constants. Of a file without tests all that it has."""
    tree = ast.parse(code)
    for node in tree.body:
        is_mark = isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "pytestmark"
        if is_mark and marks([node]) & SLOW_MARKS:
            return []
    found = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)]
    quick = [one for one in found if not marks(list(one.decorator_list)) & SLOW_MARKS]
    if not any(map(is_test, found)) or any(one.name.startswith("test_") for one in quick):
        return [*quick, *(one for one in tree.body if isinstance(one, ast.Assign))]
    return []


def texts(node: ast.AST) -> set[str]:
    """The words in quotation marks below a node."""
    return {one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)}


def is_test(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name.startswith("test_")


def test_each_invariant_has_a_quick_test() -> None:
    """The one test of ARCHITECTURE.md is quick, and is one of those that docs/GUARANTEES.md names."""
    shown, every = invariants("ARCHITECTURE.md"), invariants("docs/GUARANTEES.md")
    numbers = [f"I{number}" for number in range(1, 9)]
    assert list(shown) == list(every) == numbers
    for number in numbers:
        (sentence, (file,)), (full_sentence, files) = shown[number], every[number]
        assert sentence == full_sentence
        assert file in files, number
        assert any(is_test(one) for one in quick_parts((ROOT / file).read_text())), number
        assert all((ROOT / one).is_file() for one in files), number


def invariants(page: str) -> dict[str, tuple[str, list[str]]]:
    """The table of invariants on a page: number, sentence and the files of tests."""
    rows = re.findall(r"^\| (I\d) \| ([^|]+) \| (.*) \|$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    return {number: (text, re.findall(r"`(tests/[\w/]+\.py)`", named)) for number, text, named in rows}


def test_each_verb_is_called_by_a_quick_test() -> None:
    """`make test` calls each verb. Verbs of BROKERLESS ask none; each other is called in a test with brokers."""
    with_brokers = called_verbs("broker", "integration", "spark")
    assert set(VERBS) - BROKERLESS - with_brokers == set()
    assert BROKERLESS - with_brokers - called_verbs("unit") == set()


def called_verbs(*folders: str) -> set[str]:
    """The verbs that quick tests of these folders call as the command line."""
    skipped = {"test_cli_imports.py", Path(__file__).name}
    files = [one for folder in folders for one in (ROOT / "tests" / folder).rglob("test_*.py")]
    files.append(ROOT / "tests/support/demonstration.py")
    return {word for one in files if one.name not in skipped for word in first_words(one.read_text())} & set(VERBS)


def first_words(code: str) -> Iterator[str]:
    """The first text in each quick call of the command line; in a list what follows `cutwater.cli.main`."""
    lists = {
        one.targets[0].id: one.value
        for one in ast.walk(ast.parse(code))
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)
    }
    for node in (node for part in quick_parts(code) for node in ast.walk(part)):
        if isinstance(node, ast.Call):
            words = [text for one in node.args for text in said(one, lists)]
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            yield from words[:1] if name in CALLS else ()
        elif isinstance(node, ast.List | ast.Tuple):
            words = said(node, lists)
        else:
            continue
        yield from (after for one, after in pairwise(words) if one == "cutwater.cli.main")


def said(node: ast.AST, lists: Mapping[str, ast.AST]) -> list[str]:
    """A text, or the texts of a list, in their order. `lists`: what names in it with a star stand for."""
    if isinstance(node, ast.Starred):
        node = lists.get(node.value.id, node) if isinstance(node.value, ast.Name) else node
    if isinstance(node, ast.List | ast.Tuple):
        return [text for one in node.elts for text in said(one, lists)]
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('cli.json("late", "list")', {"late"}),
        ('CliRunner().invoke(app, ["forks", "list"])', {"forks"}),
        ('[sys.executable, "-m", "cutwater.cli.main", "tail", place]', {"tail"}),
        ('words = ("rollback", "--to")\n    job.run(*words)', {"rollback"}),
        ('said(f"make {target}", ("demo-regions", "up"))', set()),
        ('alert("late", "driver")', set()),
    ],
)
def test_only_a_call_of_the_command_line_counts(code: str, found: set[str]) -> None:
    assert set(first_words(f"def test_one():\n    {code}")) & set(VERBS) == found


@cache
def words_of_processes() -> set[str]:
    """The texts of quick tests with processes, and of what they use."""
    folders = {"support", "unit", "broker"}
    files = [
        one for one in (ROOT / "tests").rglob("*.py") if one.parent.name == "tests" or folders & set(one.parts)
    ]
    return {text for file in files for part in quick_parts(file.read_text()) for text in texts(part)}


@pytest.mark.parametrize("service", SERVICES)
def test_each_service_runs_as_a_process_in_a_quick_test(service: str) -> None:
    assert words_of_processes() & {f"cutwater.{service}", service, service.replace("_", "-")}


def test_shares_are_even_and_together_all() -> None:
    """Each test is in one share, whatever the number of them, and none takes much longer than another."""
    recorded = [SimpleNamespace(nodeid=f"{name}[{at}]") for name in _recorded() for at in range(2)]
    parts = [share(recorded, number, 7) for number in range(1, 8)]  # type: ignore[arg-type]
    assert sorted(one.nodeid for part in parts for one in part) == sorted(one.nodeid for one in recorded)
    seconds = [sum(expected_s(one.nodeid) for one in part) for part in parts]
    assert max(seconds) - min(seconds) <= max(expected_s(one.nodeid) for one in recorded)


def _recorded() -> list[str]:
    from seconds import _recorded as recorded

    return list(recorded())


def test_the_table_of_tiers_has_each_folder_of_tests() -> None:
    """docs/TESTS.md is made of it (test_readme.py); the tests in containers run apart."""
    folders = {one.relative_to(ROOT / "tests").parts[0] for one in (ROOT / "tests").rglob("test_*.py")}
    assert set(json.loads(seconds.TIERS_FILE.read_text(encoding="utf-8"))) == folders - {"containers", "support"}


def test_a_record_has_the_number_and_the_seconds_of_each_tier() -> None:
    took = [("tests/unit/a.py::t[1]", False, 0.4), ("tests/unit/a.py::t[2]", True, 2.0)]
    took += [("tests/spark/b.py::u", True, 9.0), ("tests/unit/a.py::v", False, 0.8)]
    assert seconds.tiers_of(took) == {"spark": {"slow": (1, 9)}, "unit": {"quick": (2, 1), "slow": (1, 2)}}


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "x/3", "1/0"])
def test_a_part_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(pytest.UsageError):
        part_of(text)


def test_what_needs_a_tool_is_skipped_and_counted_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """And only there."""
    monkeypatch.setattr(tiers, "TOOLS", {"kcat": lambda: False, "promtool": lambda: True})
    items = [_Item("a", "kcat"), _Item("b", "promtool"), _Item("c", "kcat"), _Item("d")]
    assert tiers._skip_without_tool(items) == {"kcat": 2}  # type: ignore[arg-type]
    assert [one.nodeid for one in items if "skip" in one.added] == ["a", "c"]


class _Item:
    def __init__(self, nodeid: str, tool: str = "") -> None:
        self.nodeid, self._tool, self.added = nodeid, tool, list[str]()

    def get_closest_marker(self, name: str) -> Any:
        return SimpleNamespace(args=(self._tool,)) if name == "needs" and self._tool else None

    def add_marker(self, mark: Any) -> None:
        self.added.append(mark if isinstance(mark, str) else mark.name)


def test_of_variations_only_the_first_is_quick() -> None:
    class Varied(_Item):
        def get_closest_marker(self, name: str) -> Any:
            return name == "variations" or None

    items = [Varied("t[a]"), Varied("t[b]"), Varied("u[a]"), _Item("v[a]"), _Item("v[b]"), _Item("w", "kcat")]
    tiers._mark_slow(items)  # type: ignore[arg-type]
    assert [one.nodeid for one in items if "slow" in one.added] == ["t[b]", "w"]


def test_a_run_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal is there only after pytest has been configured; without it nothing is said."""
    monkeypatch.setattr(seconds, "SAY_EVERY_S", 0.0)
    said: list[str] = []
    plugins: dict[str, Any] = {}
    config: Any = SimpleNamespace(pluginmanager=SimpleNamespace(get_plugin=plugins.get))
    left = seconds.TimeLeft(config)
    left.pytest_xdist_node_collection_finished(["a", "b"])
    left.pytest_runtest_logreport(SimpleNamespace(when="teardown", nodeid="a"))  # type: ignore[arg-type]
    plugins["terminalreporter"] = SimpleNamespace(write_line=said.append)
    left.pytest_runtest_logreport(SimpleNamespace(when="call", nodeid="b"))  # type: ignore[arg-type]
    assert [one.strip().partition(",")[0] for one in said] == ["1 of 2 tests"]
