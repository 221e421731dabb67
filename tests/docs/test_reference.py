"""The generated pages leave out no service, and the site is built from the pages alone."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from docs._generate import service_pages

from support.pages import ROOT

CODE = ROOT / "services/cutwater"
ELSEWHERE = re.compile(
    r"""<(?:script|link|img|iframe)\b[^>]*(?:src|href)="(?:https?:)?//|(?:url\(|@import)\W*https?:"""
)


def test_every_service_with_metrics_is_on_the_page() -> None:
    """Each `metrics.py` beside a service is one of METRICS.md's sections."""
    folders = {path.relative_to(CODE).parts[0] for path in CODE.rglob("metrics.py")}
    assert set(service_pages.registries()) == {*folders, "driver"}


def test_every_metric_that_the_code_makes_is_on_the_page() -> None:
    """By the names in the calls that make them: what a service adds at its start is none of the registries'."""
    listed = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/METRICS.md").read_text(encoding="utf-8"), re.MULTILINE)
    made = {
        name for folder in ("services", "spark") for file in (ROOT / folder).rglob("*.py") for name in _made(file)
    }
    assert len(made) > 60
    assert [one for one in sorted(made) if not any(_is_named(full, one) for full in listed)] == []


def _made(file: Path) -> set[str]:
    """The literal names of Prometheus' metrics that a file makes."""
    calls = [one for one in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(one, ast.Call)]
    kinds = re.compile(r"Counter|Gauge|Histogram|\w+MetricFamily")
    firsts = [one.args[0] for one in calls if one.args and kinds.fullmatch(getattr(one.func, "id", ""))]
    return {one.value for one in firsts if isinstance(one, ast.Constant) and isinstance(one.value, str)}


def _is_named(full: str, name: str) -> bool:
    return re.search(rf"(^|_){name}(_seconds|_bytes)?(_total)?$", full) is not None


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
