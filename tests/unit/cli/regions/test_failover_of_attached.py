"""A failover of an attached query is refused before anything is read, also with `merges`."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutwater.adapters.config.settings import load_settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.cli.regions.failover import _make_failover
from cutwater.core.errors import UsageError

EXAMPLE = Path(__file__).parents[4] / "examples" / "attach"


@pytest.mark.parametrize("file", ["orders.yaml", "sales.yaml"])
def test_an_attached_query_cannot_fail_over(file: str) -> None:
    """The message says why, and what does work. No broker is asked: none is there."""
    settings = load_settings({"CUTWATER_REGION": "eu", "CUTWATER_BOOTSTRAP_SERVERS": "127.0.0.1:1"})
    with pytest.raises(UsageError, match=r"sources are not mirrored, .* within its region work with 'merges'"):
        _make_failover(settings, load_job(EXAMPLE / file), "us")
