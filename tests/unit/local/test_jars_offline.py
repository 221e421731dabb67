"""Jars without a network: a cache that was carried over is all that is needed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cutwater.adapters.runtime.cache_folder import CACHE_VARIABLE
from cutwater.core.errors import MachineError
from cutwater.local import jars


def test_a_cache_that_was_carried_over_needs_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the folder copied and every way out closed, the jars are there; without it, the error names a jar."""
    there = jars.jars("spark")[0].parent
    shutil.copytree(there, tmp_path / "carried" / "jars" / there.name)
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "carried"))
    assert jars.present("spark")
    assert {one.parent.parent.parent for one in jars.jars("spark")} == {tmp_path / "carried"}
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "empty"))
    assert not jars.present("spark")
    with pytest.raises(MachineError, match="could not be downloaded"):
        jars.jars("spark")
