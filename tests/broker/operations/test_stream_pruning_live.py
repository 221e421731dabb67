"""`cutwater prune` on a real broker: whoever reads goes on behind what it has deleted, or says that it cannot."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
from typer.testing import CliRunner

from broker.commit_signal.test_commit_signal import Driver
from cutwater.adapters.avro import protocol_records
from cutwater.adapters.config.settings import load_settings
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.adapters.kafka.record_deletion import delete_below
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.topics.commit_stream import barriers, milestones
from cutwater.cli.main import app
from cutwater.client import committed
from cutwater.commit_signal.signaller import CommitSignal
from cutwater.core.errors import FencedError, UsageError
from cutwater.core.generations import stream_retention
from cutwater.core.job.job import Job, Output
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Token
from cutwater.core.protocol.records import Claim
from cutwater.core.protocol.stream_audit import check
from cutwater.operations.generations.prune import ExclusiveWriter
from cutwater.operations.stream_retention import Pruning
from cutwater_spark.epoch.barriers import BarrierLog
from support.cli.jsonshapes import parsed
from support.events import counting
from support.harness import GENERATION, Flow, flow
from support.regions.mirroring import Events, mirroring, require_held, sold, wait_arrived
from support.views.changelogs import Writing, following, make_job, now_ms, until
from support.views.publishing import create, pieces, publishing, read, wait_published

OLD, ALL = 8, 12
"""So many milestones were committed before the time, and in all: the newest old one stays."""
BEFORE_MS = 40 * 86_400_000


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_retention, "LEAST", 3)


@pytest.fixture
def long(broker: Any, tmp_path: Path) -> Iterator[Writing]:
    made = Writing(broker.cluster, make_job(tmp_path / "job")[0])
    create(broker.cluster, made.job)
    yield made
    made.close()


def committed_at(sequence: int) -> int:
    return now_ms() - (BEFORE_MS if sequence <= OLD else 0)


def grow(writing: Writing, sequence: int, events: Events | None = None) -> None:
    """Up to this milestone."""
    while (at := writing.last.sequence if writing.last else 0) < sequence:
        rows = sold(1, at, shops=5)
        if events is not None:
            events.produce(3)
            writing.epoch(rows, source_cut=events.cut(), committed_ms=committed_at(at + 1))
        else:
            writing.epoch(rows, committed_ms=committed_at(at + 1))


def prune(cluster: Cluster, job: Job, folder: Path, *options: str, **env: str) -> list[tuple[int, str]]:
    """How many offsets went of stream and barriers, and why no more."""
    (file,) = folder.glob("*.yaml")
    on = ("--bootstrap-servers", cluster.bootstrap, "--data-dir", str(folder / "data"))
    done = CliRunner().invoke(app, ["prune", str(file), *on, "--json", *options], env=env)
    assert done.exit_code == 0, done.output
    return [(one["offsets"], one["kept"]) for one in parsed(["prune"], done.stdout)]


def kept(cluster: Cluster, job: Job) -> list[int]:
    return [one.sequence for one, _ in milestones(cluster, job.name)]


@pytest.mark.slow
def test_every_reader_goes_on(long: Writing, tmp_path: Path) -> None:
    """New and old views, the publisher, a new client; only a token of a milestone that is gone is refused."""
    cluster, job = long.cluster, long.job
    grow(long, 3)
    with following(cluster, job, tmp_path / "behind") as view, publishing(cluster, job, tmp_path / "out"):
        view.wait_for(3)
        wait_published(cluster, job, 3)
    grow(long, ALL)
    with following(cluster, job, tmp_path / "even") as view:
        view.wait_for(ALL)
    (stream, _) = prune(cluster, job, tmp_path / "job")
    assert (kept(cluster, job), stream[1]) == (
        list(range(3, ALL + 1)),
        "milestone 3 stays: the publisher continues from it",
    )
    with publishing(cluster, job, tmp_path / "out"):
        wait_published(cluster, job, ALL)
    dry = prune(cluster, job, tmp_path / "job", "--dry-run")
    assert kept(cluster, job) == list(range(3, ALL + 1))
    assert prune(cluster, job, tmp_path / "job") == dry
    assert kept(cluster, job) == list(range(OLD, ALL + 1))
    assert prune(cluster, job, tmp_path / "job")[0][0] == 0
    assert check(milestones(cluster, job.name), barriers(cluster, job.name)) == []
    grow(long, ALL + 1)
    with ExitStack() as stack:
        views = [stack.enter_context(following(cluster, job, tmp_path / one)) for one in ("behind", "even", "new")]
        stack.enter_context(publishing(cluster, job, tmp_path / "out"))
        for view in views:
            view.wait_for(ALL + 1)
            assert view.rows() == (ALL + 1, long.by_sequence[ALL + 1])
        state: dict[tuple[str, int], int] = {}
        for one in read(cluster, job, ALL + 1, after=None):
            state |= pieces(one)
        assert state == long.by_sequence[ALL + 1]
    first = next(iter(committed(job, cluster, source="changelog", idle_s=5)))
    assert pieces(first) == long.by_sequence[first.token.sequence]
    with pytest.raises(UsageError, match="pruned"):
        next(iter(committed(job, cluster, source="changelog", after=Token(long.generation, 2), idle_s=1)))


@contextmanager
def signalling(job: Flow, clock: Callable[[], int]) -> Iterator[None]:
    """commit-signal in a thread; ended, and its error raised, when the block is left."""
    signal = CommitSignal(job.cluster, job.job.name, GENERATION, clock, structlog.get_logger())
    errors: list[BaseException] = []

    def run() -> None:
        try:
            signal.run()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        signal.stop()
        thread.join(30)
        if errors:
            raise errors[0]


@pytest.fixture
def job(broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Flow]:
    text = counting.job_text(unique("prune")) + "output: {mode: none}\n"
    with flow(broker.cluster, text, tmp_path / "job", counting.SCHEMA) as made:
        yield made


@pytest.mark.slow
def test_those_who_commit_go_on(job: Flow, tmp_path: Path) -> None:
    """commit-signal and driver start again; of all milestones that stay the barriers are there."""
    cluster, name = job.cluster, job.job.name

    def told(epochs: range, at_ms: int, driver: Driver) -> None:
        with signalling(job, lambda: at_ms):
            for epoch in epochs:
                driver.barrier(epoch)
                driver.committed(epoch)
            until(lambda: kept(cluster, job.job)[-1:] == [epochs[-1] + 1], "the milestones")

    told(range(OLD), now_ms() - BEFORE_MS, Driver(job))
    again = Driver(job, attempt=2)
    again.barrier(OLD - 1)  # as after a crash between barrier and commit log
    told(range(OLD, ALL), now_ms(), again)
    (_, signals) = prune(cluster, job.job, tmp_path / "job")
    assert (kept(cluster, job.job), signals[0] > 0) == (list(range(OLD, ALL + 1)), True)
    require_told(job)
    assert {epoch for _, epoch in barriers(cluster, name).digests} == set(range(OLD - 1, ALL))
    past = BarrierLog(cluster, name, GENERATION).open()
    assert (past.attempt, sorted(past.barriers)[-2:]) == (2, [ALL - 2, ALL - 1])
    told(range(ALL, ALL + 2), now_ms(), Driver(job, attempt=3))
    require_told(job)


def require_told(job: Flow) -> None:
    """The barriers say as their milestones do, and add no fault to those of this driver's invented digests."""
    found = milestones(job.cluster, job.job.name)
    assert check(found, barriers(job.cluster, job.job.name)) == check(found)
    assert not any("fork" in one.reason or "gap" in one.reason for one in check(found))


def test_a_first_milestone_behind_barriers_that_are_gone(job: Flow) -> None:
    """As of a generation that goes on from another region's: it begins with the oldest that is kept."""
    topic = topics.barriers(job.job.name)
    Driver(job)
    delete_below(job.cluster, topic, Offsets(job.cluster).topic_ends(topic, 1))
    driver = Driver(job, attempt=2)
    with signalling(job, now_ms):
        driver.barrier(0)
        driver.committed(0)
        until(lambda: kept(job.cluster, job.job) == [1], "the first milestone")


@pytest.mark.slow
def test_nobody_takes_what_a_claim_needs(long: Writing, tmp_path: Path) -> None:
    """The parent of a candidate stays, and who claims meanwhile ends who prunes. A job that rests keeps all."""
    cluster, name = long.cluster, long.job.name
    job = pruning_of(long)
    grow(long, OLD)
    assert next(one.why for one in job.look()).startswith("the newest milestone is older")
    grow(long, ALL)
    alone = ExclusiveWriter(cluster, name)
    cuts = job.look()
    parent = dict((one.sequence, value) for one, value in milestones(cluster, name))[5]
    writer = TransactionalWriter(cluster, topics.claims_id(name))
    writer.initialise()
    claimed = type(long.generation)(2, "local", "0" * 8)
    writer.write(
        topics.candidates(name), [protocol_records.encode(Claim(name, claimed, parent, 2, 5, "", now_ms()))]
    )
    with pytest.raises(FencedError, match="nothing more was removed"):
        job.remove(cuts, alone)
    assert kept(cluster, long.job) == list(range(1, ALL + 1))
    job.remove(job.look(), ExclusiveWriter(cluster, name))
    assert kept(cluster, long.job) == list(range(5, ALL + 1))


def pruning_of(writing: Writing) -> Pruning:
    job = type(writing.job)(**{**vars(writing.job), "output": Output(mode="none")})
    return Pruning(writing.cluster, job, load_settings(), "", now_ms)


@pytest.mark.slow
@pytest.mark.parametrize("copied", [0, 6, ALL], ids=["begins", "is behind", "is even"])
def test_a_mirror_goes_on(broker: Any, origin: Cluster, tmp_path: Path, copied: int) -> None:
    """What it has not copied stays where its region is named; a new copy begins with the oldest that is kept."""
    writing = Writing(origin, make_job(tmp_path / "job")[0])
    (file,) = (tmp_path / "job").glob("*.yaml")
    file.write_text(file.read_text() + "output: {mode: none}\n")
    events, own = Events(writing), broker.cluster
    named = {"CUTWATER_ORIGIN_REGION": "there", "CUTWATER_ORIGIN_BOOTSTRAP_SERVERS": own.bootstrap}
    if copied:
        grow(writing, copied, events)
        with mirroring(own, origin, writing.job) as mirror:
            wait_arrived(mirror, own, writing.job, copied)
    grow(writing, ALL, events)
    prune(origin, writing.job, tmp_path / "job", **(named if copied else {}))
    assert kept(origin, writing.job)[0] == (min(copied, OLD) or OLD)
    with mirroring(own, origin, writing.job) as mirror:
        require_held(writing, own, wait_arrived(mirror, own, writing.job, ALL))
        grow(writing, ALL + 1, events)
        require_held(writing, own, wait_arrived(mirror, own, writing.job, ALL + 1))
        assert mirror.mirror.copier.stopped == {}
    writing.close()
