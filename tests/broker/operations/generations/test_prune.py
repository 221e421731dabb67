"""`cutwater generation prune` on a real broker: what was left long ago goes, whatever else is asked meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.config.settings import load_settings
from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.topics.candidates import parent_of
from cutwater.cli.main import app
from cutwater.core.checks.replication import UNREPLICATED
from cutwater.core.errors import FencedError, UsageError
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Claim
from cutwater.operations.generations.claims import Claims
from cutwater.operations.generations.prune import GenerationPruning, promoted_at
from support.cli.jsonshapes import parsed
from support.views.changelogs import Sold, Writing, make_job, now_ms

HOURS = "CUTWATER_KEEP_GENERATIONS_HOURS"


class Pruned:
    """A job of three generations, the last one promoted, with checkpoints, and a snapshot of the first."""

    def __init__(self, cluster: Any, folder: Path) -> None:
        self.cluster, self.folder, (job, self.file) = cluster, folder, make_job(folder)
        self.file.write_text(self.file.read_text() + "output: {mode: none}\n")
        self.writing = Writing(cluster, job)
        self.writing.epoch([Sold("a", 1, 5)])
        self.generations = [self.writing.generation]
        self.moments = [now_ms()]
        for partitions in (4, 5):
            self.promote(partitions)
        self.changelogs = [topics.changelog(job.name, one) for one in self.generations]
        for one in self.generations:
            (folder / "data" / "checkpoints" / job.name / str(one) / "seeds").mkdir(parents=True)
        self.manifest = folder / "snapshots" / job.name / str(self.generations[0]) / "all/manifests/1.json"
        self.manifest.parent.mkdir(parents=True)
        self.manifest.write_text("{}")

    def promote(self, partitions: int) -> None:
        """As `generation start` and the candidate's own commit-signal do it."""
        parent = self.writing.last
        assert parent is not None
        self.writing.promote(partitions)
        claim = Claim(
            self.writing.job.name,
            self.writing.generation,
            protocol_records.encode(parent),
            partitions,
            0,
            "",
            now_ms(),
        )
        writer = TransactionalWriter(self.cluster, topics.claims_id(self.writing.job.name))
        writer.initialise()
        writer.write(topics.candidates(self.writing.job.name), [protocol_records.encode(claim)])
        self.generations.append(self.writing.generation)
        self.moments.append(now_ms())

    def run(self, *options: str, **env: str) -> Result:
        on = ("--bootstrap-servers", self.cluster.bootstrap, "--data-dir", str(self.folder / "data"))
        told = {"CUTWATER_SNAPSHOTS": str(self.folder / "snapshots"), HOURS: "0", **env}
        return CliRunner().invoke(app, ["generation", "prune", str(self.file), *on, "--json", *options], env=told)

    def kept(self, *options: str, **env: str) -> list[str | None]:
        """Why each is kept of which anything is left, the oldest first."""
        done = self.run(*options, **env)
        assert done.exit_code == 0, done.output
        return [one["kept"] for one in parsed(["generation", "prune"], done.stdout)]

    def there(self) -> list[bool]:
        found = admin.descriptions(self.cluster, self.changelogs)
        return [one in found for one in self.changelogs]

    def checkpoints(self) -> set[str]:
        return {one.name for one in (self.folder / "data" / "checkpoints" / self.writing.job.name).iterdir()}


@pytest.fixture
def job(broker: Any, tmp_path: Path) -> Pruned:
    return Pruned(broker.cluster, tmp_path)


def test_only_what_nothing_needs_is_removed(job: Pruned) -> None:
    """Of the first: topic, checkpoint and, when asked for, snapshots. The parent of the promoted one stays."""
    parent = f"{job.generations[2]} was started from one of its milestones"
    [snapshot, second] = job.kept()
    assert "1 snapshots of it are kept" in (snapshot or "")
    assert second == parent
    assert job.kept("--with-snapshots", "--dry-run") == [None, parent]
    assert (job.there(), job.manifest.exists()) == ([True] * 3, True)
    assert job.kept("--with-snapshots") == [None, parent]
    assert (job.there(), job.manifest.exists()) == ([False, True, True], False)
    assert job.checkpoints() == {str(one) for one in job.generations[1:]}
    assert job.kept() == [parent]


@pytest.mark.slow
def test_what_was_left_within_the_time_stays(job: Pruned) -> None:
    """By default for seven days: nothing is removed that a rollback may want."""
    for kept in job.kept("--with-snapshots", **{HOURS: "168"}):
        assert "too recently" in (kept or "") or "was started from" in (kept or "")
    assert job.there() == [True] * 3


@pytest.mark.slow
def test_nobody_starts_from_what_is_gone(job: Pruned) -> None:
    """A rollback to a milestone of it is refused before anything is claimed."""
    assert job.kept("--with-snapshots")[0] is None
    claims = Claims(job.cluster, job.writing.job, "local", now_ms)
    with pytest.raises(UsageError, match="is gone, and with it the state"):
        claims.start(f"{job.generations[0]}:1", None, True, "", UNREPLICATED)


@pytest.mark.slow
def test_who_was_promoted_at_a_time_is_read_off_the_stream(job: Pruned) -> None:
    """Between two promotions it is the one before; before the first milestone nobody."""
    name = job.writing.job.name
    assert [promoted_at(job.cluster, name, at_ms + 1) for at_ms in job.moments] == job.generations
    assert promoted_at(job.cluster, name, job.moments[0] - 3_600_000) is None


def retiring(job: Pruned) -> GenerationPruning:
    """As the command makes it, and alone."""
    settings = load_settings().model_copy(
        update={"keep_generations_hours": 0, "data_dir": job.folder / "data", "region": "local"}
    )
    one = GenerationPruning(job.cluster, job.writing.job, settings, "", now_ms)
    one.fence_others()
    return one


@pytest.mark.slow
@pytest.mark.parametrize("who", ["a rollback", "another one that prunes"])
def test_who_begins_meanwhile_ends_who_prunes(job: Pruned, who: str) -> None:
    """What was looked at is not what stands there any more: nothing is removed that a claim needs by now."""
    pruning = retiring(job)
    [first, _] = pruning.list_earlier()
    assert first.why_kept is None
    claims = Claims(job.cluster, job.writing.job, "local", now_ms)
    if who == "a rollback":
        claims.start(f"{job.generations[0]}:1", None, True, "", UNREPLICATED)
    else:
        retiring(job)
    with pytest.raises(FencedError, match="nothing more was removed"):
        pruning.remove(first)
    assert job.there() == [True] * 3
    [first, *_] = retiring(job).list_earlier()
    assert (first.why_kept is None) == (who != "a rollback")


class Beside(Claims):
    """Somebody who has looked before removes what it starts from, between its two questions."""

    def reserve(self, *words: Any, **more: Any) -> Claim:
        claim = super().reserve(*words, **more)
        admin.delete_topics(self._cluster, [topics.changelog(self._job.name, parent_of(claim).generation)])
        return claim


@pytest.mark.slow
def test_a_claim_whose_parent_went_meanwhile_is_given_up(job: Pruned) -> None:
    """It says so, and leaves no candidate that could never begin."""
    claims = Beside(job.cluster, job.writing.job, "local", now_ms)
    with pytest.raises(UsageError, match="is gone, and with it the state"):
        claims.start(f"{job.generations[0]}:1", None, True, "", UNREPLICATED)
    [*_, made] = claims.known().by_id.values()
    assert "is gone, and with it the state" in str(made.withdrawn)
