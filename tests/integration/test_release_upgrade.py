"""From the release before to this one, and back: process after process, while events flow.

The old processes run from the wheel of that release (`support.releases`), with the same libraries.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.avro.codec import MARKER
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.core.errors import ProtocolError
from cutwater.core.protocol import topics
from cutwater.core.protocol.stream_audit import check
from support.events import counting
from support.harness import GENERATION, Flow, flow
from support.releases import releases
from support.rolling_upgrade import Load, Rolling, under_load

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1_800)]
BEFORE = releases()[-1]
PROMISED = ("publisher", "rehydrator", "signal", "driver")
"""Readers first, as schemas/README.md says."""
UNKNOWN = bytes.fromhex("c0ffee00c0ffee00")
"""A fingerprint that no schema has."""
PROTOCOL_ERROR = ProtocolError.exit_code


@pytest.fixture
def job(broker: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Flow]:
    name = f"rolling-{request.node.callspec.id if hasattr(request.node, 'callspec') else 'back'}"
    with flow(broker.cluster, counting.job_text(name), tmp_path, counting.SCHEMA) as made:
        ensure_topics(broker.cluster, topics.generation_topics(name, GENERATION, 2, made.job.output))
        yield made


def start_old(job: Flow) -> Rolling:
    """All processes are of the release before, and have written snapshots, views, positions and a checkpoint."""
    rolling = Rolling(job, BEFORE)
    for part in ("signal", "driver", "publisher", "rehydrator"):
        rolling.start(part, old=True)
    rolling.wait_flows("the release before")
    return rolling


def assert_exact(rolling: Rolling, load: Load) -> None:
    """Output and view are what the events say, no sequence is missing, and nobody has reported an error."""
    load.stop()
    last = rolling.flow.wait_committed()
    expected = load.state()
    published, sequences = rolling.published(last)
    assert published == expected
    assert sequences == list(range(1, sequences[-1] + 1))
    rolling.wait_shown(last)
    assert rolling.served() == expected
    assert check(rolling.flow.milestones()) == []
    assert rolling.errors() == []


@pytest.mark.parametrize("order", [PROMISED, PROMISED[::-1]], ids=["promised", "reverse"])
def test_each_process_is_replaced_under_load(job: Flow, order: tuple[str, ...]) -> None:
    """In the promised order, and in the reverse one, as no format has changed since the release before."""
    with under_load(job) as load:
        rolling = start_old(job)
        for part in order:
            rolling.replace(part, old=False)
            rolling.wait_flows(f"with a new {part}")
        rolling.replace("rehydrator", old=False, folder="another-disk")
        rolling.wait_flows("with a view from a snapshot of the release before")
        assert_exact(rolling, load)
    assert {one.name.split("-")[1] for one in rolling.logs} == {"old", "new"}


def test_readers_go_back_to_the_release_before(job: Flow) -> None:
    """Before the driver is upgraded, views and positions that this version has written serve the old one."""
    readers = ("publisher", "rehydrator", "signal")
    with under_load(job) as load:
        rolling = start_old(job)
        for part in readers:
            rolling.replace(part, old=False)
            rolling.wait_flows(f"with a new {part}")
        for part in reversed(readers):
            rolling.replace(part, old=True)
            rolling.wait_flows(f"with the old {part} again")
        assert_exact(rolling, load)


@pytest.mark.parametrize("part", ["signal", "publisher"])
def test_the_release_before_stops_at_a_record_that_it_does_not_know(job: Flow, part: str) -> None:
    """It ends with exit code 5, and its last line names the record's fingerprint."""
    topic = topics.milestones(job.job.name)
    writer = TransactionalWriter(job.cluster, "a newer version")
    writer.initialise()
    writer.write(topic, [MARKER + UNKNOWN + b"of a record that only a newer version writes"])
    rolling = Rolling(job, BEFORE)
    rolling.start(part, old=True)
    assert rolling.ended(part) == PROTOCOL_ERROR
    said = rolling.logs[0].read_text(encoding="utf-8")
    assert UNKNOWN.hex() in said
    assert "Traceback" not in said
