"""docs/MUTATION.md says what was recorded, and nothing is called equivalent that is not there."""

from __future__ import annotations

from mutation.equivalents import EQUIVALENT
from mutation.operators import mutants, sources
from mutation.score import PAGE, page, recorded


def test_the_page_is_that_of_the_recorded_score() -> None:
    """To renew it: make mutate SAMPLE=600 RECORD=1."""
    assert PAGE.read_text(encoding="utf-8") == page(recorded())


def test_what_is_called_equivalent_is_still_there() -> None:
    """A reason outlives no code."""
    texts = sources()
    modules = {module for module, _, _ in EQUIVALENT}
    there = {(module, one.scope, one.what) for module in modules for one in mutants(texts[module], module)}
    assert set(EQUIVALENT) - there == set()


def test_nine_of_ten_mutants_are_noticed() -> None:
    """In a record of the modules that there are."""
    modules = recorded()["modules"]
    assert set(modules) - set(sources()) == set()
    noticed, tried = (sum(column) for column in zip(*modules.values(), strict=True))
    assert noticed >= 0.9 * tried
