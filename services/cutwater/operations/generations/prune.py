"""Earlier generations: what is left of them, why it is kept, and its removal."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.client import bounds, first_since, make_consumer, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.object_store import Objects, objects_at
from cutwater.adapters.topics.candidates import candidates, parent_of, promoted
from cutwater.adapters.topics.commit_stream import published_milestone
from cutwater.adapters.topics.generation_jobs import first
from cutwater.adapters.topics.mirror_topics import last_arrival
from cutwater.core.errors import FencedError, MachineError, UnavailableError, UsageError
from cutwater.core.generations.retention import GenerationFacts, retention_reason
from cutwater.core.job.job import Job
from cutwater.core.protocol import mirror_records, topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone

HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Earlier:
    """The rest of a replaced or abandoned generation."""

    generation: Generation
    why_kept: str | None
    changelog: str | None
    """The topic; None if it was removed."""
    checkpoint: Path | None
    """The folder on this machine, with the seed; None without one."""


class ExclusiveWriter:
    """Fences other processes that claim, promote, give up or prune. A later one fences this process."""

    def __init__(self, cluster: Cluster, job: str) -> None:
        self._topic = topics.candidates(job)
        self._writer = TransactionalWriter(cluster, topics.claims_id(job))
        self._writer.initialise()

    def require(self) -> None:
        """Raise FencedError if another process has started since, so that what is needed must be checked again;
        UnavailableError if brokers do not say so."""
        try:
            known = self._writer.require_own(self._topic)
        except FencedError:
            raise FencedError(
                "another process claims, promotes, gives up or prunes a generation: nothing more was removed. "
                "Run this again"
            ) from None
        if not known:
            raise UnavailableError(
                "the brokers do not say whether another process claims a generation: nothing more was removed. "
                "Run this again"
            )


class GenerationPruning:
    """Lists a job's generations, and removes those not needed. `store`: the snapshot store, or empty."""

    def __init__(
        self, cluster: Cluster, job: Job, settings: Settings, store: str, now_ms: Callable[[], int]
    ) -> None:
        self._cluster = cluster
        self._job = job
        self._settings = settings
        self._objects = objects_at(store, settings) if store else None
        self._now_ms = now_ms
        self._alone: ExclusiveWriter | None = None

    def fence_others(self) -> None:
        """Fence other processes that claim or prune."""
        self._alone = ExclusiveWriter(self._cluster, self._job.name)

    def list_earlier(self, with_snapshots: bool = False, with_forks: bool = False) -> list[Earlier]:
        """Return the generations with anything left, without the promoted one; oldest first. `with_snapshots`:
        snapshots are removed too, and keep no generation. `with_forks`: as well possible forks. Raises
        UsageError if nothing is promoted yet."""
        now = self._read_facts(with_snapshots)._replace(keep_forks=not with_forks)
        known = {first(self._settings), *now.known.by_id} - {now.promoted}
        names = {one: topics.changelog(self._job.name, one) for one in known}
        there = admin.descriptions(self._cluster, list(names.values()))
        found = [
            Earlier(one, retention_reason(one, now), name if name in there else None, self._checkpoint(one))
            for one, name in sorted(names.items())
        ]
        return [one for one in found if one.changelog or one.checkpoint]

    def remove(self, one: Earlier) -> None:
        """Remove the snapshots, then the changelog that they need, then the checkpoint. May be killed and
        repeated. Raises FencedError if another process has started to claim or prune since `fence_others`, so
        that what is needed must be checked again; UnavailableError if that is not known. A claim made after that
        check finds the changelog missing."""
        if self._alone is not None:
            self._alone.require()
        if self._objects is not None:
            for snapshot in self._objects.list_objects(f"{self._job.name}/{one.generation}"):
                self._objects.delete(snapshot.name)
        if one.changelog:
            admin.delete_topics(self._cluster, [one.changelog])
        if one.checkpoint:
            try:
                shutil.rmtree(one.checkpoint)
            except OSError as error:
                raise MachineError(f"{one.checkpoint} cannot be removed: {error}; then run this again") from None

    def _read_facts(self, with_snapshots: bool) -> GenerationFacts:
        name = self._job.name
        last = promoted(self._cluster, name)
        if last is None:
            raise UsageError(f"job {name} has no milestone yet: there is no earlier generation")
        since_ms = self._now_ms() - self._settings.keep_generations_hours * HOUR_MS
        known = candidates(self._cluster, name)
        return GenerationFacts(
            promoted=last.generation,
            since=promoted_at(self._cluster, name, since_ms),
            since_ms=since_ms,
            known=known,
            parents={one: parent_of(at.claim).generation for one, at in known.by_id.items()},
            output=self._output(),
            snapshots={} if with_snapshots else self._snapshots(),
            arrived=self._arrived([*known.by_id, first(self._settings)]),
        )

    def _output(self) -> Generation | None:
        if self._job.output.mode == "none":
            return None
        milestone = published_milestone(self._cluster, self._job.name)
        return milestone.generation if milestone else None

    def _snapshots(self) -> Counter[str]:
        return Counter(generation for generation, _ in manifests(self._objects, self._job.name))

    def _arrived(self, generations: list[Generation]) -> frozenset[Generation]:
        """Return the generations whose changelogs the newest arrivals refer to."""
        prefix = mirror_records.arrivals(self._job.name, "")
        origins = [one.removeprefix(prefix) for one in admin.names(self._cluster) if one.startswith(prefix)]
        arrivals = [last_arrival(self._cluster, self._job.name, one) for one in origins]
        used = {place.topic for one in arrivals if one for place, _ in one.changelog_cut}
        return frozenset(one for one in generations if topics.changelog(self._job.name, one) in used)

    def _checkpoint(self, generation: Generation) -> Path | None:
        """Return the checkpoint below the data folder. The user manages any other."""
        folder = self._settings.data_dir / "checkpoints" / self._job.name / str(generation)
        return folder if folder.is_dir() else None


def manifests(objects: Objects | None, job: str) -> Iterator[tuple[str, int]]:
    """Yield generation id and sequence of each kept snapshot, from the object names; there may be others."""
    for one in objects.list_objects(job) if objects else ():
        parts = one.name.split("/")
        if len(parts) == 5 and parts[3] == "manifests" and (number := parts[4].removesuffix(".json")).isdecimal():
            yield parts[1], int(number)


def promoted_at(cluster: Cluster, job: str, at_ms: int) -> Generation | None:
    """Return the generation promoted at a time, by the last kept milestone before it; None without one."""
    topic, consumer, step = topics.milestones(job), make_consumer(cluster), 256
    try:
        low, _ = bounds(consumer, topic, 0)
        high = first_since(consumer, topic, 0, at_ms)
        while low < high:
            begin = max(low, high - step)
            values = [bytes(one.value()) for one in read_range(consumer, topic, 0, begin, high)]
            found = [one for one in map(protocol_records.decode, values) if isinstance(one, Milestone)]
            if found:
                return found[-1].generation
            if begin == low:
                break
            step *= 2
        return None
    finally:
        consumer.close()
