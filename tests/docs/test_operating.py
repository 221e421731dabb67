"""What the pages for operators say in figures and names is what the code says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from cutwater.adapters.job_files.errors import MISTAKES_MAX
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.checks import capacity, cluster, machine
from cutwater.core.errors import UsageError
from cutwater.core.protocol import mirror_records, topics
from cutwater.core.protocol.generation import Generation
from support.pages import ROOT, blocks, text_of

OPERATING, REMOVING, VERSIONS = (text_of(f"docs/{name}.md") for name in ("OPERATING", "REMOVING", "VERSIONS"))


def test_the_mistakes_on_the_page_are_told_of_the_file_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """`job.yaml` of examples/mistakes, and what reading it says."""
    monkeypatch.chdir(ROOT / "examples/mistakes")
    with pytest.raises(UsageError) as caught:
        load_job(Path("job.yaml"))
    (shown,) = [one.text for one in blocks("docs/OPERATING.md") if one.text.startswith("job.yaml:")]
    assert str(caught.value) == shown.rstrip("\n")
    assert caught.value.exit_code == 2
    assert f"At most {MISTAKES_MAX} mistakes are printed" in OPERATING


def test_every_topic_that_is_added_is_on_the_page() -> None:
    """REMOVING.md lists what a job adds to a cluster, topic by topic."""
    listed = set(re.findall(r"^\| topic, [^|]*\| `<job>\.([a-z-]+)[.<`]", REMOVING, re.MULTILINE))
    owned = {
        one.name.removeprefix("job.").split(".")[0]
        for one in topics.generation_topics("job", Generation(1, "local"), 2)
    }
    assert listed == owned


def test_every_transactional_id_is_on_the_page() -> None:
    """They stay on the brokers for a week: whoever looks finds them explained."""
    (row,) = [line for line in REMOVING.splitlines() if line.startswith("| transactional ids |")]
    job, generation = "<job>", Generation(1, "local")
    ids = {topics.signal_id(job), topics.publisher_id(job), topics.watch_id(job), topics.replay_id(job)}
    ids |= {topics.claims_id(job), topics.spread_id(job)}
    own = (topics.driver_id(job, generation), topics.candidate_id(job, generation))
    ids |= {one.replace(str(generation), "<generation>") for one in own}
    slot = mirror_records.slot_id(job, "<origin>", 0).replace(".0", ".<slot>")
    ids |= {slot, mirror_records.arrivals_id(job, "<origin>"), mirror_records.operator_id(job, "<origin>")}
    ids |= {mirror_records.renewal_id(job, "<origin>")}
    assert ids == {one for one in re.findall(r"`([^`]+)`", row) if one.startswith("<job>")}


def test_the_formula_has_the_codes_numbers() -> None:
    """Bytes of a protocol record, of a cut's entry and of a record's frame are those of the code."""
    assert f"3 x {capacity.PROTOCOL_BYTES} + 2 x {capacity.CUT_BYTES} x partitions" in OPERATING
    assert f"bytes of an event + {capacity.RECORD_BYTES}" in OPERATING


def test_the_versions_are_those_of_the_code() -> None:
    """What `doctor` checks, and what is installed, is what the page names."""
    tested = dict(re.findall(r"^\| ([A-Za-z ]+) \| ([^|]+) \|", VERSIONS, re.MULTILINE))
    first, last = (f"{major}.{minor}" for major, minor in (machine.PYTHON_FIRST, machine.PYTHON_LAST))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"].startswith(f">={tested['Python']}")
    assert (tested["Python"], f"3.12, {last}" in VERSIONS) == (first, True)
    assert (tested["Java"], f"| {machine.JAVA_SPARK_MAX};" in VERSIONS) == (
        str(machine.JAVA_MIN),
        True,
    )
    local = project["optional-dependencies"]["local"]
    (spark,) = [one.partition("==")[2] for one in local if one.startswith("pyspark==")]
    assert tested["Spark"].startswith(f"PySpark {spark},")
    assert tested["Kafka brokers"].startswith(cluster.TESTED)
    lock = (ROOT / "services/cutwater/local/jars/kafka.lock.toml").read_text(encoding="utf-8")
    assert f'"{tested["Kafka brokers"]}"' in lock
