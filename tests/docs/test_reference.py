"""The generated pages leave out no service, and the site is built from the pages alone."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cutwater.cli import reference_services
from pages import ROOT

ELSEWHERE = re.compile(
    r"""<(?:script|link|img|iframe)\b[^>]*(?:src|href)="(?:https?:)?//|(?:url\(|@import)\W*https?:"""
)


def test_every_service_with_metrics_is_on_the_page() -> None:
    """Each `metrics.py` beside a service is one of METRICS.md's sections."""
    folders = {path.parent.name for path in (ROOT / "services/cutwater").glob("*/metrics.py")}
    assert set(reference_services.registries()) == {*folders, "driver"}


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_needs_nobody(tmp_path: Path) -> None:
    """Warnings are errors, a broken link or anchor among them; nothing is loaded from another host."""
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
    paths = ["-c", "docs", "-d", str(tmp_path / "trees"), ".", str(tmp_path / "site")]
    done = subprocess.run([*command, *paths], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    pages = [path for path in (tmp_path / "site").rglob("*") if path.suffix in {".html", ".css"}]
    assert len(pages) > 20
    assert [path.name for path in pages if ELSEWHERE.search(path.read_text(encoding="utf-8"))] == []
