"""The project's own schemas keep the rules of schemas/README.md: part of `make check`."""

from __future__ import annotations

from pathlib import Path

from cutwater.adapters.job_files.schema_files import schema_files
from cutwater.core.events.schema_versions import problems

ROOT = Path(__file__).parents[2]


def test_the_protocols_schemas_may_follow_their_older_versions() -> None:
    """What `cutwater schemas check` says of schemas/: nothing."""
    assert problems(schema_files(ROOT / "schemas")) == []
