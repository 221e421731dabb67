"""A sandbox's job file, settings and folder: nothing of them reaches the running job."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.job.job import differences
from cutwater.local.changed_job_file import changed_job_file
from cutwater.replay.sandbox import CHANGES, environment_of
from support.events import counting


def test_a_changed_job_file_makes_the_same_rows(tmp_path: Path) -> None:
    """Whatever the fields were; what is beside the file is found."""
    path = tmp_path / "job.yaml"
    text = counting.job_text("ticks") + "max_jump: 1d\nmax_bytes: 1GB\nlate: {amend_for: 1h}\n"
    path.write_text(text + "changelog: {format: confluent}\nregistry: {url: 'http://registry:8081'}\n")
    (tmp_path / "event.avsc").write_text(counting.SCHEMA)
    job = load_job(path)
    changed = load_job(changed_job_file(path, tmp_path / "sandbox", CHANGES))
    assert changed.definition == job.definition, differences(job.definition, changed.definition)
    assert changed.name == job.name
    assert (changed.output.mode, changed.changelog_format) == ("none", "avro")
    assert (changed.max_jump_ms, changed.max_bytes) == (None, None)
    century_ms = 36_500 * 86_400_000
    assert (changed.amend_for_ms, changed.retention_ms) == (century_ms, century_ms)
    assert path.read_text().startswith(text)


def test_the_users_settings_do_not_reach_beyond(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a job with a checkpoint elsewhere, another region, a cluster of Spark and a generation of its own."""
    for name, value in {
        "CHECKPOINT": "s3a://bucket/checkpoint",
        "ORIGIN_REGION": "us",
        "ORIGIN_BOOTSTRAP_SERVERS": "kafka-us:9092",
        "GENERATION": "g7-eu-5f0c21aa",
        "SPARK_MASTER": "yarn",
        "SPARK_APPLICATION": "127.0.0.1:7077",
        "GO_ON_BEHIND": "g1-eu-00000000:4",
        "BEGIN_BESIDE": "us",
    }.items():
        monkeypatch.setenv(f"CUTWATER_{name}", value)
    for name, value in environment_of("eu", Settings()).items():
        monkeypatch.setenv(name, value)
    own = Settings()
    assert (own.checkpoint or None, own.origin_region, own.origin_bootstrap_servers) == (None, "", "")
    assert (str(own.generation), own.spark_master, own.spark_application) == ("g1-eu-00000000", "local[*]", "")
    assert (own.go_on_behind, own.begin_beside) == ("", "")
    assert environment_of("eu", Settings(spark_master="local[2]"))["CUTWATER_SPARK_MASTER"] == "local[2]"
