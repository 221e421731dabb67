"""`late replay` on a constructed plan: what it says of the events, and where the parent's state is gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cutwater.cli.generations import claim
from cutwater.cli.main import app
from cutwater.core.errors import UsageError
from support.cli.verb_samples import SAMPLES

[SAMPLE] = [one for one in SAMPLES if one.words[:2] == ["late", "replay"]]


@pytest.fixture
def patched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    SAMPLE.patch(monkeypatch, tmp_path)
    return monkeypatch


def test_a_dry_run_says_what_would_count(patched: pytest.MonkeyPatch) -> None:
    """Also what is not selected; an incomplete list is exit 1."""
    done = CliRunner().invoke(app, SAMPLE.words, env={"COLUMNS": "300"})
    assert done.exit_code == SAMPLE.code == 1
    assert (
        "late events that would count: 1; selected: 2; their windows end after 1970-01-01T00:01:30Z" in done.output
    )
    assert "would be claimed: from g1-local-00000000:1" in done.output
    assert "the list is not complete" in done.output


def test_a_parent_that_is_gone_comes_with_the_options_that_help(patched: pytest.MonkeyPatch) -> None:
    """Its state, or the events behind it: an earlier milestone with a snapshot, or later events."""

    def gone(*_arguments: Any) -> None:
        raise UsageError("events after the milestone are gone")

    patched.setattr(claim, "require_works", gone)
    done = CliRunner().invoke(app, SAMPLE.words, env={"COLUMNS": "300"})
    assert done.exit_code == 2
    assert (
        "events after the milestone are gone. The late events need that milestone or an earlier one" in done.output
    )
    assert "--since" in done.output
