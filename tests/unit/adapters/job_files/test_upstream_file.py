"""A job file whose source is another job's output: what it takes from that file, and what is refused, by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutwater.adapters.events.event_producer import require_own_source
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.errors import UsageError
from cutwater.core.events.formats import EventFormat
from cutwater.local.jobs.job_files import job_folders
from support.events import counting

DOWN = """job: {name}
source: {{job: {upstream}, key: key, event_time: window_start{more}}}
window: {{kind: tumbling, size: 1h}}
lateness: 1h
retention: 1d
measures:
  total: {{measure: {measure}, field: total}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "event.avsc").write_text(counting.SCHEMA)
    return tmp_path


def upstream(folder: Path, mode: str = "final", kind: str = "avro", name: str = "up") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(
        counting.job_text(name) + f"output: {{mode: {mode}, format: {kind}}}\nregistry: {{url: http://r}}\n"
    )
    return path


def downstream(
    folder: Path, more: str = "", measure: str = "sum", name: str = "down", of: str = "up.yaml"
) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(DOWN.format(name=name, upstream=of, measure=measure, more=more))
    return path


def refused(path: Path) -> str:
    with pytest.raises(UsageError) as refusal:
        load_job(path)
    return str(refusal.value)


@pytest.mark.parametrize("kind", ["avro", "confluent", "json"])
def test_topic_schema_and_format_are_the_upstreams(folder: Path, kind: str) -> None:
    """And the job knows whose output it reads."""
    up = load_job(upstream(folder, kind=kind))
    job = load_job(downstream(folder))
    assert (job.topic, job.event_schema, job.upstream) == ("up.output", up.output_schema, "up")
    assert job.format == EventFormat(kind, subject="up.output-value" if kind == "confluent" else "")
    assert (job.key_field, job.time_field, job.time_micros) == ("key", "window_start", False)


def test_corrections_count_only_where_the_file_says_so(folder: Path) -> None:
    """A sum would have the row twice. The user's own condition holds besides."""
    upstream(folder)
    assert load_job(downstream(folder)).where == "kind in ('update', 'final')"
    assert load_job(downstream(folder, ", corrections: leave_out")).where == "kind in ('update', 'final')"
    assert load_job(downstream(folder, ", corrections: count")).where == ""


def test_what_counts_is_part_of_a_rows_meaning(folder: Path) -> None:
    """A generation could not go on with the other rule; jobs without an upstream mean what they meant."""
    up = load_job(upstream(folder))
    one, other = load_job(downstream(folder)), load_job(downstream(folder, ", corrections: count"))
    assert one.fingerprint != other.fingerprint
    assert '"upstream": "up"' in one.definition
    assert "upstream" not in up.definition


@pytest.mark.parametrize("measure", ["count", "sum", "avg", "variance", "quantile"])
def test_updates_are_not_added_up(folder: Path, measure: str) -> None:
    """Each is the window's whole new value."""
    upstream(folder, "updates")
    more = ", ranks: [0.5]" if measure == "quantile" else ""
    path = downstream(folder, measure=f"{measure}{more}")
    assert "down.yaml:7: measures.total.measure: the output of job up is a window's new value at each" in refused(
        path
    )


@pytest.mark.parametrize("measure", ["min", "max", "first", "last", "distinct"])
def test_measures_that_a_repetition_does_not_change_may_have_updates(folder: Path, measure: str) -> None:
    upstream(folder, "updates")
    assert load_job(downstream(folder, measure=measure)).upstream == "up"


def test_what_the_upstream_tells_is_not_said_again(folder: Path) -> None:
    """Each by its line; and corrections are of an upstream alone."""
    upstream(folder)
    said = refused(downstream(folder, ", topic: x, schema: y.avsc, format: json"))
    for name in ("topic", "schema", "format"):
        assert f"down.yaml:2: source.{name}: belongs to a topic of events" in said
    path = folder / "plain.yaml"
    path.write_text(counting.job_text("plain").replace("event_time: at", "event_time: at, corrections: count"))
    assert "source.corrections: belongs to source.job" in refused(path)


def test_an_upstream_that_cannot_be_read_is_named(folder: Path) -> None:
    """Missing, wrong, without an output; and jobs that read each other."""
    said = refused(downstream(folder))
    assert said.startswith(f"{folder / 'down.yaml'}:2: source.job: ")
    assert "up.yaml: cannot be read" in said
    upstream(folder, mode="none")
    assert "source.job: 'up.yaml' has no output" in refused(downstream(folder))
    downstream(folder, name="up", of="down.yaml")
    assert "a circle" in refused(downstream(folder))
    assert "a circle" in refused(downstream(folder, of="down.yaml"))
    assert "is no name of a file" in refused(downstream(folder, of='"up\\0.yaml"'))


def test_a_field_that_the_output_lacks_is_told_with_those_it_has(folder: Path) -> None:
    upstream(folder)
    path = downstream(folder)
    path.write_text(path.read_text().replace("field: total", "field: totl"))
    assert "the schema has no field 'totl'; it has: sequence, kind, key, window_start" in refused(path)


def test_nothing_is_produced_to_an_output(folder: Path) -> None:
    """Only its publisher writes there: a foreign record would end that publisher."""
    require_own_source(load_job(upstream(folder)))
    with pytest.raises(UsageError, match="only that job writes"):
        require_own_source(load_job(downstream(folder)))


def test_a_stack_starts_an_upstream_first(folder: Path) -> None:
    """Whatever the order of the files; another file of the upstream's name must have the same output."""
    up, down = upstream(folder), downstream(folder)
    last = downstream(folder, measure="max", name="last", of="down.yaml")
    found = job_folders([last, down, up], folder / "data")
    assert [one.job.name for one in found] == ["up", "down", "last"]
    other = folder / "other"
    other.mkdir()
    (other / "event.avsc").write_text(counting.SCHEMA)
    different = upstream(other, kind="json")
    with pytest.raises(UsageError, match="not of the same output"):
        job_folders([different, down], folder / "data")


def test_jobs_that_read_each_other_by_other_files_are_refused(folder: Path) -> None:
    """Each file can be loaded, as it names one of the other job that reads a topic of events."""
    other = folder / "other"
    other.mkdir()
    (other / "event.avsc").write_text(counting.SCHEMA)
    for name in ("one", "two"):
        upstream(other, name=name)
    files = [folder / f"{name}.yaml" for name in ("one", "two")]
    for file, of in zip(files, ("two", "one"), strict=True):
        text = (other / f"{file.stem}.yaml").read_text()
        topic = f"topic: {file.stem}.events, schema: event.avsc, key: key, event_time: at"
        read = f"job: other/{of}.yaml, key: key, event_time: window_start"
        file.write_text(text.replace(topic, read).replace("sum, field: value", "max, field: total"))
    with pytest.raises(UsageError, match="a circle"):
        job_folders(files, folder / "data")
