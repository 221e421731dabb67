"""Collections are rare while any reader works, and as before once none does."""

from __future__ import annotations

import gc

from cutwater.adapters.runtime.garbage_collection import rare_collections


def test_blocks_that_overlap_restore_what_was_before_the_first() -> None:
    """The finding: two that end in the order of their beginning left the process without any."""
    before = gc.get_threshold()
    first, second = rare_collections(), rare_collections()
    first.__enter__()
    second.__enter__()
    assert gc.get_threshold() != before
    first.__exit__(None, None, None)
    assert gc.get_threshold() != before, "the second one still works"
    second.__exit__(None, None, None)
    assert gc.get_threshold() == before
