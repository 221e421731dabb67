"""A job file with its schemas as texts: the same job in any folder, and files that cannot travel are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cutwater.adapters.job_files.carried_files import BYTES_MAX, carried_files, load_carried
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.errors import UsageError
from cutwater.core.protocol.records import FileText
from support.views.changelogs import make_job

ROOT = Path(__file__).parents[4]
JOBS = sorted((ROOT / "deploy/jobs").glob("*.yaml"))


@pytest.mark.parametrize("path", JOBS, ids=[str(one.relative_to(ROOT)) for one in JOBS])
def test_a_job_of_ours_is_the_same_elsewhere(path: Path) -> None:
    """Its meaning, its events and its older schemas; or it says what cannot travel."""
    job = load_job(path)
    if job.transform or job.upstream:
        with pytest.raises(UsageError, match="do not travel with a claim"):
            carried_files(path)
        return
    files = carried_files(path)
    there = load_carried(files)
    assert files[0].name == path.name
    assert (there.definition, there.event_schema, there.format) == (job.definition, job.event_schema, job.format)


def test_older_versions_of_a_schema_travel_too(tmp_path: Path) -> None:
    """Events that were written with one of them are read after a change as before."""
    job, path = make_job(tmp_path)
    schema = json.loads((tmp_path / "sale.avsc").read_text())
    (tmp_path / "sale.v1.avsc").write_text(json.dumps(schema | {"doc": "first"}))
    (tmp_path / "other.avsc").write_text("{")
    files = carried_files(path)
    assert [one.name for one in files] == [path.name, "sale.avsc", "sale.v1.avsc"]
    assert len(load_carried(files).format.older) == 1
    assert load_carried(files).fingerprint == job.fingerprint


def test_a_schema_in_a_folder_keeps_its_place(tmp_path: Path) -> None:
    _, path = make_job(tmp_path)
    (tmp_path / "schemas").mkdir()
    (tmp_path / "sale.avsc").rename(tmp_path / "schemas/sale.avsc")
    path.write_text(path.read_text().replace("sale.avsc", "schemas/sale.avsc"))
    files = carried_files(path)
    assert [one.name for one in files] == [path.name, "schemas/sale.avsc"]
    assert load_carried(files).fingerprint == load_job(path).fingerprint


def test_a_schema_elsewhere_or_too_large_is_refused(tmp_path: Path) -> None:
    _, path = make_job(tmp_path / "job")
    text = path.read_text()
    (tmp_path / "job/sale.avsc").rename(tmp_path / "sale.avsc")
    for name in ("../sale.avsc", str(tmp_path / "sale.avsc")):
        path.write_text(text.replace("sale.avsc", name))
        with pytest.raises(UsageError, match="no file beside the job file"):
            carried_files(path)
    path.write_text(text)
    schema = json.loads((tmp_path / "sale.avsc").read_text())
    (tmp_path / "job/sale.avsc").write_text(json.dumps(schema | {"doc": "x" * BYTES_MAX}))
    with pytest.raises(UsageError, match="a claim carries at most"):
        carried_files(path)


@pytest.mark.parametrize("name", ["../up.avsc", "/etc/passwd", "a/../../up.avsc"])
def test_a_file_from_the_topic_is_never_written_elsewhere(tmp_path: Path, name: str) -> None:
    """Whoever may write to the topic may write no file of this machine."""
    files = (*carried_files(make_job(tmp_path)[1]), FileText(name, "{}"))
    with pytest.raises(UsageError, match="no file beside the job file"):
        load_carried(files)
