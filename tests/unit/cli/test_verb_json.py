"""What every verb prints with --json is valid JSON of the shape that docs/JSON.md gives it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import typer.main
from docs._generate import pages
from docs._generate.shapes import SHAPES
from typer.testing import CliRunner

from cutwater.cli.main import app
from support.cli.jsonshapes import parsed, parsed_lines, verb_of
from support.cli.verb_samples import SAMPLES, Sample, keep_audit
from support.pages import ROOT


def verbs_with_json() -> set[str]:
    """Every verb that can print JSON."""
    found, waiting = set(), [("", typer.main.get_command(app))]
    while waiting:
        name, verb = waiting.pop()
        inner = getattr(verb, "commands", None)
        if inner is not None:
            waiting += [(f"{name} {one}".strip(), made) for one, made in inner.items()]
        elif any("--json" in one.opts for one in verb.params) or name == "schemas show":
            found.add(name)
    return found


def run(sample: Sample, folder: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> str:
    """Standard output of the verb."""
    for name in [name for name in os.environ if name.startswith("CUTWATER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CUTWATER_DATA_DIR", str(folder / "data"))
    monkeypatch.chdir(ROOT)
    sample.patch(monkeypatch, folder)
    keep_audit(monkeypatch)
    words = [word.replace("{}", str(folder)) for word in sample.words]
    done = CliRunner().invoke(app, [*words, *options], catch_exceptions=False)
    assert done.exit_code == sample.code, done.output
    return done.stdout


def test_every_verb_has_a_shape_and_a_sample() -> None:
    """A new verb with --json is declared, and run here."""
    assert set(SHAPES) == verbs_with_json()
    assert {verb_of(one.words) for one in SAMPLES} == set(SHAPES)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda one: " ".join(one.words[:2]))
def test_json_has_the_declared_shape(sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No field more and none less, and nothing that Python alone could read."""
    options = [] if sample.words[:2] == ["schemas", "show"] else ["--json"]
    text = run(sample, tmp_path, monkeypatch, *options)
    if sample.lines:
        assert parsed_lines(sample.words, text)
    else:
        assert parsed(sample.words, text) is not None
    assert text.replace("\n", "").isprintable()
    assert not [name for name in ("Cut(", "Generation(", "Token(", "TopicPartition(", "b'\\x") if name in text]


def test_the_schema_files_are_current() -> None:
    """`make fmt` renews them, and none is left of a verb that is gone."""
    made = pages.schema_files()
    there = {f"json/{path.name}": path.read_text(encoding="utf-8") for path in (ROOT / "docs/json").iterdir()}
    assert there == made
