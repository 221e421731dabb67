"""What tests of the whole stack share: nothing of a demonstration outlives its test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.demonstration import STARTED


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    yield
    while STARTED:
        STARTED.pop().end()
