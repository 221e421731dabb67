"""Reads the load by shard and by key, and counts the state by shard, from the changelog."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import NamedTuple

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.hashing import key_bytes_hash
from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.candidates import with_partitions
from cutwater.adapters.topics.commit_stream import milestones
from cutwater.core.console.hot_keys import ranking_measure
from cutwater.core.errors import UsageError
from cutwater.core.generations.start_state import is_claimed
from cutwater.core.job.job import WINDOW_KEY_SCHEMA, Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.records import Milestone
from cutwater.core.skew.load import LoadTally, ShardLoad, milestone_range
from cutwater.core.skew.ownership import Counted, Moved, moved
from cutwater.views.changelog.key_codec import Windows
from cutwater.views.changelog.proof import require_schema
from cutwater.views.changelog.range_reader import Ranges
from cutwater.views.query.presenter import Presenter

RECORDS_MAX = 5_000_000
"""Bound of the records that are read: each row held takes some 150 bytes."""
COUNT_MAX = 2_000_000
_SHARDS_MAX = 200_000
"""Keys whose shard is remembered."""

Report = Callable[[int], None]


class _Row(NamedTuple):
    partition: int
    offset: int
    shard: int
    key: str
    identity: bytes
    """The record's key: group key and window."""
    value: bytes


class ChangelogRows:
    """The live rows of one generation's changelog between two cuts."""

    def __init__(self, cluster: Cluster, job: Job, milestone: Milestone) -> None:
        self._milestone = milestone
        self._topic = topics.changelog(job.name, milestone.generation)
        self._ranges = Ranges(cluster, self._topic)
        self._texts = Windows(Codec(WINDOW_KEY_SCHEMA).header, self._topic, 1, 0)
        self._mask = job.shards.shards - 1
        self._known: dict[bytes, tuple[int, str]] = {}

    def close(self) -> None:
        self._ranges.close()

    def since(self, earlier: Cut, report: Report = lambda _: None) -> Iterator[_Row]:
        """Yield the rows up to the milestone, in log order within a partition. Raises as `Range.pieces`."""
        done = 0
        for partition, messages in self._ranges.between(earlier, self._milestone).pieces():
            for message in messages:
                value, key = message.value(), message.key()
                if value is None or key is None:
                    continue
                yield _Row(partition, message.offset(), *self._shard(self._texts.text(key)), key, value)
            report(done := done + len(messages))

    def _shard(self, text: bytes) -> tuple[int, str]:
        if (found := self._known.get(text)) is None:
            found = key_bytes_hash(text) & self._mask, text.decode()
            if len(self._known) < _SHARDS_MAX:
                self._known[text] = found
        return found


def read_load(
    cluster: Cluster, job: Job, wanted: int, report: Report = lambda _: None, records_max: int = RECORDS_MAX
) -> ShardLoad:
    """Return the load of the newest milestones, at most `wanted`, of the promoted generation.

    `report`: receives the number of records read so far. Raises UsageError if there are too few milestones to tell
    any; DivergenceError if the rows are of another job file; UnavailableError if the brokers do not answer.
    """
    found = [one for one, _ in milestones(cluster, job.name, 2 * wanted + 1)]
    last = found[-1] if found else None
    own = [one for one in found if last and one.generation == last.generation]
    range_ = milestone_range(own, wanted, last is not None and is_claimed(last.generation), records_max)
    if last is None or range_ is None:
        raise UsageError(
            f"job {job.name} has no milestone whose rows can be told from those before: wait for the next one"
        )
    require_schema(topics.changelog(job.name, last.generation), last, job)
    column = count_column(job)
    shards = with_partitions(job, len(last.changelog_cut)).shards
    tally, partials = LoadTally(range_, shards, column is not None), Presenter(job).partials
    earlier = range_.since.changelog_cut if range_.since else Cut()
    with closing(ChangelogRows(cluster, job, last)) as rows:
        for row in rows.since(earlier, report):
            count = int(partials(row.value)[column] or 0) if column else 0
            tally.add(row.partition, row.offset, row.shard, row.key, row.identity, count)
    return tally.load(one_row_each=job.attached is None and not job.element_columns)


def count_column(job: Job) -> str | None:
    """Return the partial that counts all events of a row; None if the job has none."""
    name = ranking_measure(job)
    found = next((one for one in job.measures if one.name == name and not one.field), None)
    return found.partials[0].column if found else None


def count_moved(cluster: Cluster, job: Job, parent: Milestone, partitions: int) -> Moved | None:
    """Return what gets another partition in a generation with so many; None if the parent has as many.

    Without the parent's changelog, as after a prune, shards are counted, and neither keys nor rows. Raises as
    `read_load`.
    """
    before, shards = len(parent.changelog_cut), job.shards.shards
    if before == partitions:
        return None
    nothing = Counted((0,) * shards, (0,) * shards, whole=False)
    here = admin.descriptions(cluster, [topics.changelog(job.name, parent.generation)])
    return moved(shards, before, partitions, count_state(cluster, job, parent) if here else nothing)


def count_state(cluster: Cluster, job: Job, milestone: Milestone, records_max: int = COUNT_MAX) -> Counted:
    """Return keys and rows of the state by shard: of all rows, or of the newest `records_max` records.

    Raises as `read_load`.
    """
    many = max(1, records_max // len(milestone.changelog_cut))
    earlier = Cut.of({place: max(0, end - many) for place, end in milestone.changelog_cut})
    rows_of: list[set[bytes]] = [set() for _ in range(job.shards.shards)]
    keys_of: list[set[str]] = [set() for _ in range(job.shards.shards)]
    with closing(ChangelogRows(cluster, job, milestone)) as rows:
        for row in rows.since(earlier):
            keys_of[row.shard].add(row.key)
            rows_of[row.shard].add(row.identity)
    whole = not any(offset for _, offset in earlier)
    return Counted(tuple(map(len, keys_of)), tuple(map(len, rows_of)), whole)
