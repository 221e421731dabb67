"""docs/MUTATION.md says what was recorded, and nothing is called equivalent that is not there."""

from __future__ import annotations

from mutation.equivalents import EQUIVALENT, reason_of
from mutation.operators import mutants, sources
from mutation.score import PAGE, page, recorded


def test_the_page_is_that_of_the_recorded_score() -> None:
    """To renew it: make mutate SAMPLE=600 RECORD=1."""
    assert PAGE.read_text(encoding="utf-8") == page(recorded())


def test_each_module_is_tried_and_nine_of_ten_mutants_are_noticed() -> None:
    """A module without a mutant has nothing to change."""
    texts, modules = sources(), recorded()["modules"]
    there = {
        module for module, text in texts.items() if any(reason_of(one) is None for one in mutants(text, module))
    }
    assert there ^ set(modules) == set()
    noticed, tried = (sum(column) for column in zip(*modules.values(), strict=True))
    assert noticed >= 0.9 * tried


def test_what_is_called_equivalent_is_still_there() -> None:
    """A reason outlives no code."""
    texts = sources()
    modules = {module for module, _, _ in EQUIVALENT}
    there = {(module, one.scope, one.what) for module in modules for one in mutants(texts[module], module)}
    assert set(EQUIVALENT) - there == set()
