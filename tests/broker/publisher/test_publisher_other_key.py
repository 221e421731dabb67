"""A publisher over a hand-over to a generation with fewer columns in its key: the old keys get tombstones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.job_files.carried_files import carried_files
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.client import Change, committed
from cutwater.core.job.job import TOMBSTONE
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Claim, Redefinition
from support.views.changelogs import GENERATION, HOUR_MS, Sold, Writing, make_job
from support.views.generation_player import Next
from support.views.publishing import PublisherProcess, create, wait_published

OLD, NEW = "key: [shop, region]", "key: [shop]"


@pytest.fixture(params=["avro", "json"])
def files(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Path, Path]:
    """The job file, and the one of the next generation."""
    old = make_job(tmp_path)[1]
    schema = json.loads((tmp_path / "sale.avsc").read_text())
    schema["fields"].append({"name": "region", "type": "string"})
    (tmp_path / "sale.avsc").write_text(json.dumps(schema))
    text, new = old.read_text() + f"output: {{format: {request.param}}}\n", tmp_path / "new.yaml"
    old.write_text(text.replace("key: shop", OLD))
    new.write_text(text.replace("key: shop", NEW))
    return old, new


@pytest.fixture
def writing(broker: Any, files: tuple[Path, Path]) -> Iterator[Writing]:
    made = Writing(broker.cluster, load_job(files[0]))
    create(broker.cluster, made.job)
    yield made
    made.close()


def changes(writing: Writing, file: Path, up_to: int) -> list[list[Change]]:
    found = []
    for one in committed(file, writing.cluster, idle_s=30):
        found.append(list(one.changes))
        if one.token.sequence == up_to:
            break
    return found


@pytest.mark.slow
def test_old_keys_get_tombstones_with_the_columns_of_the_new_key(
    writing: Writing, files: tuple[Path, Path], tmp_path: Path
) -> None:
    """The publisher ended at the first of them, and whenever it was started again."""
    old, new = files
    writing.epoch([Sold('["a","x"]', 1, 5), Sold('["a","y"]', 1, 7), Sold('["b","x"]', 1, 1)])
    publisher = PublisherProcess(writing.cluster, old, tmp_path / "data")
    try:
        wait_published(writing.cluster, writing.job, 1)
        after = Next(writing, start=1)
        after.job = replace(load_job(new), shards=after.job.shards)
        after.seeds = {('["a"]', HOUR_MS): 12, ('["b"]', HOUR_MS): 1}
        assert writing.last is not None
        claim = Claim(writing.job.name, after.generation, protocol_records.encode(writing.last), 6, 0, "", 0)
        told = [
            Redefinition(writing.job.name, of, job.fingerprint, carried_files(file), 0, 0)
            for of, job, file in (
                (GENERATION, writing.job, old),
                (after.generation, after.job, new),
            )
        ]
        writer = TransactionalWriter(writing.cluster, topics.claims_id(writing.job.name))
        writer.initialise()
        writer.write(topics.candidates(writing.job.name), list(map(protocol_records.encode, (claim, *told))))
        after.promoted([])
        wait_published(writing.cluster, after.job, 2)
    finally:
        publisher.kill()
    for file in files:
        _, second = changes(writing, file, 2)
        gone = {(one.key, one.key_columns["shop"]) for one in second if one.kind == TOMBSTONE}
        assert gone == {('["a","x"]', "a"), ('["a","y"]', "a"), ('["b","x"]', "b")}
        kept = {
            (one.key, one.key_columns["shop"], int(one.values["pieces"]))
            for one in second
            if one.kind != TOMBSTONE
        }
        assert kept == {('["a"]', "a", 12), ('["b"]', "b", 1)}
    first, _ = changes(writing, new, 2)
    assert {one.key: one.key_columns for one in first} == {
        f'["{shop}","{region}"]': {"shop": shop, "region": region}
        for shop, region in (("a", "x"), ("a", "y"), ("b", "x"))
    }
