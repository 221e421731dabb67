"""The seed of a generation: files beside its checkpoint, written before the first query.

It is read from the parent's changelog, or from snapshots of the milestone if the changelog is no longer complete.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.adapters.runtime.crash_points import reach
from cutwater.adapters.topics.candidates import candidates, origin_parent
from cutwater.adapters.topics.commit_stream import values
from cutwater.adapters.topics.log_evidence import LogCheck
from cutwater.core.errors import DivergenceError, UsageError
from cutwater.core.generations.candidates import Candidate
from cutwater.core.generations.recount import recount_obstacle
from cutwater.core.generations.seed_check import require_state, require_taken
from cutwater.core.generations.start_state import floor_behind, require_kept
from cutwater.core.job.event_decoding import Decoding
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Barrier, Claim, Milestone
from cutwater.operations.generations.parent_changelog import changelog_problem, kept_behind
from cutwater.views.snapshots.repositories import repositories_at
from cutwater.views.snapshots.snapshot_set import StoredSeeds
from cutwater_spark.checkpoint import Checkpoint, Seed
from cutwater_spark.seed.from_changelog import write_seed
from cutwater_spark.seed.from_snapshot import write_lines, write_stored
from cutwater_spark.seed.parent import Seeding, seeding_of, start_state
from cutwater_spark.seed.progress import log_progress, log_rows
from cutwater_spark.seed.recounted_state import Recount

SIGNALS_MAX = 10_000
"""Signals that are read after the parent milestone; the next barrier, if there is one, is among the first."""
READING = "the parent's state is being read"
RECOUNTING = "events are counted again"
_LINES = "rows.txt"


class SeedPreparation:
    def __init__(
        self,
        spark: SparkSession,
        job: Job,
        settings: Settings,
        attempt: int,
        now_ms: Callable[[], int],
        log: Any,
        stopped: Callable[[], bool],
        decoding: Decoding | None = None,
    ) -> None:
        """`decoding`: of the events, for a job with measures of `kept: state`."""
        self._spark, self._job, self._settings = spark, job, settings
        self._cluster, self._generation = settings.cluster, settings.generation
        self._attempt, self._now_ms, self._log, self._stopped = attempt, now_ms, log, stopped
        self._decoding = decoding

    def prepare(self, parent: Milestone, checkpoint: Checkpoint) -> Seed:
        """Return the seed, files and floor; write it if no earlier attempt has. Call it after fencing.

        A seed counts once the checkpoint names its folder. Each attempt writes into its own folder, so the partial
        files of a killed attempt never count. Raise Stopped if stopped during the fetch or reading of snapshots.
        """
        if (kept := checkpoint.seed()) is not None:
            shutil.rmtree(self._fetch_folder, ignore_errors=True)
            return kept
        if checkpoint.newest_planned() >= 0:
            raise DivergenceError(
                f"the checkpoint {checkpoint.location} has epochs but no seed: it is another generation's, or "
                "damaged"
            )
        require_kept(parent, kept_behind(self._cluster, parent.source_cut))
        LogCheck(self._cluster).require(parent.evidence, parent.source_cut, f"milestone {parent.token}")
        checkpoint.drop_seeds()
        candidate = candidates(self._cluster, self._job.name).require(self._generation)
        seeding, claim = seeding_of(self._cluster, self._job, candidate, parent), candidate.claim
        folder = made = checkpoint.seed_folder(self._attempt)
        if self._job.state_measures:
            folder = checkpoint.seed_rows_folder(self._attempt)
        if why := self._from_changelog(seeding, parent, folder):
            self._from_snapshots(seeding, claim, why, checkpoint, folder)
        # Last: the parent's next epoch may be about to end.
        seed = Seed(made, floor_of(self._cluster, claim, parent))
        if folder != made:
            self._recount(candidate, parent, seed, folder)
            checkpoint.drop_seed_rows(self._attempt)
        reach("seed-written")
        checkpoint.keep_seed(self._attempt, seed.floor_ms)
        reach("seed-kept")
        return seed

    def _recount(self, candidate: Candidate, parent: Milestone, seed: Seed, rows: str) -> None:
        """Write the seed from its rows: with the measures of `kept: state`, as far as events tell them."""
        job, most = self._job, self._settings.recount_events
        if self._decoding is None:
            raise UsageError("a seed with measures of kept: state needs the decoding of the events")
        begins = start_state(self._cluster, job, self._generation, parent, seed.floor_ms)
        recount = Recount(self._spark, self._cluster, job, self._decoding, self._generation.region)
        floor_ms = begins.floor_ms
        why = recount_obstacle(job, parent, candidate.redefinition is not None, candidate.reopening is not None)
        ranges = {} if why else recount.ranges(parent, floor_ms)
        events = sum(end - first for first, end in ranges.values())
        if ranges and (events := events + recount.listed()) > most:
            why, ranges = f"{events:,} events would be read; CUTWATER_RECOUNT_EVENTS allows {most:,}", {}
        with log_progress(self._log, RECOUNTING, events, self._spark):
            found = recount.write(rows, seed.folder, parent, floor_ms, ranges)
        told = {"open_rows": found.open_rows, "whole": found.whole, "events": 0 if why else events}
        self._log.info("measures that are kept in state are counted again", **told, reason=why or None)

    @property
    def _fetch_folder(self) -> Path:
        return self._settings.data_dir / "seeding" / self._job.name / str(self._generation)

    def _from_changelog(self, seeding: Seeding, parent: Milestone, folder: str) -> str:
        """Write the seed, return "" or why the changelog is incomplete. Raise if it is not the parent's."""
        if why := self._missing_reason(parent):
            return why
        with log_progress(self._log, READING, records_below(self._cluster, parent), self._spark):
            read = write_seed(self._spark, self._cluster, seeding, parent, folder)
        if why := self._missing_reason(parent):  # again: the reading took time
            return why
        require_state(parent, read, self._written(folder))
        return ""

    def _missing_reason(self, parent: Milestone) -> str:
        return changelog_problem(self._cluster, self._job.name, parent, self._generation.region, self._now_ms)

    def _from_snapshots(
        self, seeding: Seeding, claim: Claim, why: str, checkpoint: Checkpoint, folder: str
    ) -> None:
        """Write the seed. Raise UsageError without snapshots; UnavailableError, MachineError if a fetch fails."""
        parent, settings = origin_parent(claim), self._settings
        self._log.warning("the state is read from a snapshot", milestone=str(parent.token), reason=why)
        shelves = repositories_at(settings.snapshots, settings) if settings.snapshots else None
        stored = StoredSeeds(shelves, seeding.before, parent, why)
        with stored.opened(self._fetch_folder, self._log, self._stopped) as (taken, rows):
            lines = self._fetch_folder / _LINES
            given = write_lines(log_rows(rows, self._log, READING), lines)
            of = checkpoint.upload_seed_input(lines, self._attempt)
        reach("seed-brought")
        read = write_stored(self._spark, seeding, parent, of, folder)
        require_taken(parent, given, read, self._written(folder))
        checkpoint.drop_seed_input(self._attempt)
        self._log.info("the state is read", snapshots=[one.name for one in taken], rows=read.rows)

    def _written(self, folder: str) -> int:
        count: int = self._spark.read.parquet(folder).count()
        return count


def records_below(cluster: Cluster, parent: Milestone) -> int:
    """Return the most records below the milestone's cut: compaction and transactions leave gaps."""
    topic = parent.changelog_cut.entries[0][0].topic
    kept = Offsets(cluster).topic_bounds(topic, [place.partition for place, _ in parent.changelog_cut])
    return sum(max(0, end - kept[place.partition][0]) for place, end in parent.changelog_cut)


def floor_of(cluster: Cluster, claim: Claim, parent: Milestone) -> int:
    """Return the watermark that a generation starts with, by the barriers topic as it is now."""
    with closing(values(cluster, topics.barriers(claim.job), parent.barriers_position)) as told:
        signals = map(protocol_records.decode, islice(told, SIGNALS_MAX))
        return floor_behind(claim, parent, (one for one in signals if isinstance(one, Barrier)))
