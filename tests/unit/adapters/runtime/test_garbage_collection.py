"""Collections are rare while any reader works, and as before once none does."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from cutwater.adapters.runtime import garbage_collection
from cutwater.adapters.runtime.garbage_collection import rare_collections

OUTSIDE = (701, 11, 12)


@pytest.fixture(autouse=True)
def _as_in_a_new_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = gc.get_threshold()
    monkeypatch.setattr(garbage_collection, "_before", [])
    gc.set_threshold(*OUTSIDE)
    yield
    gc.set_threshold(*before)


def test_blocks_that_overlap_restore_what_was_before_the_first() -> None:
    """The finding: two that end in the order of their beginning left the process without any."""
    first, second = rare_collections(), rare_collections()
    first.__enter__()
    second.__enter__()
    assert gc.get_threshold() != OUTSIDE
    first.__exit__(None, None, None)
    assert gc.get_threshold() != OUTSIDE, "the second one still works"
    second.__exit__(None, None, None)
    assert gc.get_threshold() == OUTSIDE
