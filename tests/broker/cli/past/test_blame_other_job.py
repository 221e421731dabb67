"""The history of a row whose earlier rows on the output are of a generation with another job file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.job_files.carried_files import carried_files
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Redefinition
from cutwater.past.row_logs import RowLogs, RowOfKey
from support.views.changelogs import GENERATION, HOUR_MS, Sold, Writing, make_job, now_ms
from support.views.publishing import create, publishing, wait_published


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    return make_job(tmp_path, partitions=2)[1]


@pytest.fixture
def writing(broker: Any, job_file: Path) -> Iterator[Writing]:
    made = Writing(broker.cluster, load_job(job_file))
    create(broker.cluster, made.job)
    yield made
    made.close()


def test_rows_of_another_job_file_are_part_of_the_history(
    writing: Writing, job_file: Path, tmp_path: Path
) -> None:
    """They were refused as bytes of another schema, and `blame` ended."""
    with publishing(writing.cluster, writing.job, tmp_path / "store"):
        for number, pieces in enumerate((5, 7), 1):
            writing.epoch([Sold("a", 1, pieces), Sold("b", 1, 1)])
            wait_published(writing.cluster, writing.job, number)
    new = tmp_path / "new.yaml"
    new.write_text(job_file.read_text() + "  most: {measure: max, field: pieces}\n")
    told = Redefinition(writing.job.name, GENERATION, writing.job.fingerprint, carried_files(job_file), 0, 0)
    writer = TransactionalWriter(writing.cluster, topics.claims_id(writing.job.name))
    writer.initialise()
    writer.write(topics.candidates(writing.job.name), [protocol_records.encode(told)])
    job = load_job(new)
    batches, is_truncated = RowLogs(writing.cluster, job, RowOfKey.of(job, "a", HOUR_MS), now_ms).output(2)
    assert not is_truncated
    rows = [one.row.values for one in batches if one.row is not None and one.row.values is not None]
    assert [(int(one["pieces"]), one["most"]) for one in rows] == [(5, None), (7, None)]
