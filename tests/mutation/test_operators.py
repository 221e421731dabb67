"""The tool itself: which places it changes, into what, and that a change takes hold in code that runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from cutwater.core.state import backlog
from mutation.operators import Mutant, changed, mutants, sources
from mutation.swap import _found, swap

CODE = '''
"""A text that stays."""
LIMIT = 3
DEFAULTS = {"rows": 5}

class Range:
    first: int = 0

    def holds(self, at, open=False):
        """Says so."""
        if not open and self.first <= at < LIMIT:
            self.seen = at
            return at - 1
        raise ValueError(f"{at + 1} is not there")
'''


def said(code: str) -> list[str]:
    return [one.what for one in mutants(code, "range.py")]


def test_each_operator_changes_what_it_should() -> None:
    found = said(CODE)
    for what in (
        "6 for 5",
        "1 for 0",
        "True for False",
        "and/or: not open and self.first <= at < LIMIT",
        "without not open: not open and self.first <= at < LIMIT",
        "no not: not open",
        "< for <=: self.first <= at < LIMIT",
        "> for <=: self.first <= at < LIMIT",
        "<= for <: self.first <= at < LIMIT",
        ">= for <: self.first <= at < LIMIT",
        "deleted: self.seen = at",
        "+ for -: at - 1",
        "2 for 1",
        "deleted: raise ValueError(f'{at + 1} is not there')",
    ):
        assert what in found, what
    assert "4 for 3" not in found, "a number behind a name in capitals is a choice"
    assert not [one for one in found if one.startswith("- for +")], "a text and what is put into it"
    assert not [one for one in found if "deleted: 'Says" in one]


def test_a_mutant_is_the_same_code_but_for_one_place() -> None:
    source = ast.unparse(ast.parse(CODE))
    for one in mutants(CODE, "range.py"):
        other = ast.unparse(changed(CODE, one))
        differ = [pair for pair in zip(source.splitlines(), other.splitlines(), strict=True) if pair[0] != pair[1]]
        assert len(differ) == 1, one.what


def test_a_name_stays_while_its_function_does() -> None:
    """Lines in front of it do not matter, and no two mutants share one."""
    before = {one.name: one.what for one in mutants(CODE, "range.py")}
    after = {one.name: one.what for one in mutants("import os\n\n\n" + CODE, "range.py")}
    assert before == after
    assert len(before) == len(mutants(CODE, "range.py"))


@pytest.fixture
def put_back() -> Iterator[None]:
    function = _found(backlog, ["fresh"])
    assert function is not None
    code = function.__code__
    yield
    function.__code__ = code


@pytest.mark.usefixtures("put_back")
def test_a_change_takes_hold_in_what_runs() -> None:
    """Everybody who has imported the function runs the other code."""
    from cutwater.core.state.backlog import fresh
    from support.protocol_samples import milestone

    one = milestone(1)
    assert fresh(one, one.written_ms)
    assert swap(_of("state/backlog.py", "fresh", ">= for <"))
    assert not fresh(one, one.written_ms)


def test_what_runs_at_the_import_cannot_be_swapped() -> None:
    """It is imported in a process of its own."""
    at_import = next(
        one for one in mutants(sources()["protocol/commit.py"], "protocol/commit.py") if not one.scope
    )
    assert not swap(at_import)


def _of(module: str, scope: str, what: str) -> Mutant:
    found = (one for one in mutants(sources()[module], module) if one.scope == scope and what in one.what)
    return next(found)
