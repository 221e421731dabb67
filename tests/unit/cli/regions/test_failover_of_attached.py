"""A failover of an attached query needs the name of its topic: refused before anything is read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cutwater.adapters.config.settings import load_settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.cli.regions.failover import _make_failover
from cutwater.core.errors import UsageError
from cutwater.operations.regions.failover import Failover

EXAMPLE = Path(__file__).parents[4] / "examples" / "attach"
SETTINGS = load_settings({"CUTWATER_REGION": "eu", "CUTWATER_BOOTSTRAP_SERVERS": "127.0.0.1:1"})


@pytest.mark.parametrize("file", ["orders.yaml", "sales.yaml"])
def test_an_attached_query_without_a_source_cannot_fail_over(file: str) -> None:
    """The message says what to add. No broker is asked: none is there."""
    with pytest.raises(UsageError, match=r"not name its topic, .*Name it as 'attached.source', with 'merges'"):
        _make_failover(SETTINGS, load_job(EXAMPLE / file), "us")


def test_with_its_source_it_can(tmp_path: Path) -> None:
    """The name is no part of a row's meaning: a job that runs may get it."""
    job = load_job(EXAMPLE / "sales.yaml")
    named = load_job(with_source(tmp_path, "sales.yaml"))
    assert (named.source, job.source) == ("orders", "")
    assert (named.definition, named.fingerprint) == (job.definition, job.fingerprint)
    assert isinstance(_make_failover(SETTINGS, named, "us"), Failover)


def test_a_source_needs_merges(tmp_path: Path) -> None:
    """A failover starts a generation from a milestone."""
    with pytest.raises(UsageError, match=r"attached.source: is for a failover, .* say in attached.merges"):
        load_job(with_source(tmp_path, "orders.yaml"))


def with_source(folder: Path, file: str) -> Path:
    shutil.copytree(EXAMPLE, folder / "example")
    path = folder / "example" / file
    text = path.read_text(encoding="utf-8")
    text = text.replace("attached: {", "attached: {source: orders, ")
    text = text.replace("attached:\n", "attached:\n  source: orders\n")
    path.write_text(text, encoding="utf-8")
    return path
