"""Names that nobody else uses."""

from __future__ import annotations

import itertools
import os

_numbers = itertools.count()


def unique(name: str) -> str:
    """`name` with a suffix that no other test of this run uses: for topics, groups, transactional ids."""
    return f"{name}-{os.getpid()}-{next(_numbers)}"
