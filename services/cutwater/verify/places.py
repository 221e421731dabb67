"""The places that Kafka and HTTP reach: each fills a table with what it holds at one milestone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Message

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.kafka.client import bounds, make_consumer, partition_count, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.client.decoding import Decoder, OutputDecoder
from cutwater.client.export.stream import exported
from cutwater.core.checks.state_comparison import RowName, shown_text
from cutwater.core.errors import DivergenceError
from cutwater.core.events.formats import CONFLUENT_HEADER_BYTES, is_confluent
from cutwater.core.job.job import TOMBSTONE, Job
from cutwater.core.output.position import End
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Token
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Entry, Step, fresh
from cutwater.core.state.selection import Selection
from cutwater.verify.scratch import Table
from cutwater.views.changelog.milestone_rows import Updates
from cutwater.views.changelog.proof import require_whole
from cutwater.views.changelog.range_reader import Ranges
from cutwater.views.changelog.record_reader import RowReader
from cutwater.views.query.output_json import from_iso
from cutwater.views.query.presenter import Presenter, plain


class NotHeld(Exception):
    """The place does not hold the milestone by itself: a later one may do."""


class NotYet(Exception):
    """The place has not come as far yet."""


def shown_by(job: Job) -> Callable[[bytes], bytes]:
    """What users see of a changelog value."""
    presenter = Presenter(job)
    return lambda value: shown_text({name: plain(one) for name, one in presenter.values(value).items()})


def single_object(job: Job) -> Callable[[bytes], bytes]:
    """A changelog value whatever its framing, in the one that places are compared in."""
    header = Codec(job.state_schema).header
    return lambda value: header + value[CONFLUENT_HEADER_BYTES:] if is_confluent(value) else value


def fill_from_changelog(job: Job, ranges: Ranges, entry: Entry, before: Cut, table: Table, now_ms: Any) -> str:
    """The newest row of each name below the milestone's cut and above its horizon.

    Returns why the milestone's own rows are not those that it proves; empty when they are. Raises
    `views.changelog.proof.Overtaken` when compaction may have taken values below the cut.
    """
    milestone = entry.milestone
    range_ = ranges.between(Cut(), milestone, look_above=not fresh(milestone, now_ms()))
    take_rows(job, range_, milestone.horizon_ms, table)
    require_whole(milestone, range_.first_above_ms, now_ms())
    try:
        # It is whole, however old it is: that was seen above the cut. So by the milestone's own time, too.
        for _ in Updates(job, ranges, lambda: milestone.written_ms).rows(Step(entry), before):
            pass
    except DivergenceError as error:
        return str(error)
    return ""


def take_rows(job: Job, messages: Iterable[Message], horizon_ms: int, table: Table) -> None:
    """Of a changelog's records, in log order within a partition, the newest row of each name above the horizon."""
    reader, framed = RowReader(job), single_object(job)
    for message in messages:
        row = reader.row(message)
        if row.window.end_ms <= horizon_ms:
            continue
        name = RowName(*row.window)
        if row.deleted:
            table.delete(name)
        else:
            table.put(name, framed(row.value))
    table.flush()


class ShownBy(NamedTuple):
    """What a rehydrator says of its rows."""

    token: Token
    partitions: list[int] | None
    """Those that it holds; None for all."""
    lower_ms: int | None
    """Windows that end at or below it were evicted for the size of its state; None: none were."""
    selection: Selection | None
    """What it holds of them; None for all."""


def fill_from_view(job: Job, api_url: str, headers: Mapping[str, str], table: Table) -> ShownBy:
    """All rows that the rehydrator holds; returns the milestone that it shows them at, and of which partitions."""
    framed = single_object(job)
    with exported(api_url, headers) as found:
        for window, value in found.rows:
            table.put(RowName(*window), framed(value))
        table.flush()
        lower = found.milestone.get("lower_bound")
        return ShownBy(
            Token.parse(str(found.milestone["token"])),
            found.partitions,
            None if lower is None else from_iso(lower),
            Selection.of_object(found.selection),
        )


class Output:
    """The output topic up to one milestone."""

    def __init__(self, job: Job, cluster: Cluster) -> None:
        self._job = job
        self._cluster = cluster
        self._topic = topics.output(job.name)
        self._decoder: Decoder = OutputDecoder(job)
        self.problems: list[str] = []
        """Where end markers do not say what stands before them."""
        self.forgetful = False
        """Has the retention deleted records of it?"""

    def fill(self, milestone: Milestone, table: Table) -> None:
        """The last value of each row up to the milestone's end markers.

        Raises NotYet, or NotHeld when the milestone was published as one with later ones.
        """
        self.problems.clear()
        consumer = make_consumer(self._cluster)
        try:
            for partition in range(partition_count(self._cluster, self._topic)):
                self._partition(consumer, partition, milestone, table)
        finally:
            consumer.close()
        table.flush()

    def _partition(self, consumer: Consumer, partition: int, milestone: Milestone, table: Table) -> None:
        low, high = bounds(consumer, self._topic, partition)
        known, rows = low == 0, 0
        self.forgetful |= low > 0
        for message in read_range(consumer, self._topic, partition, low, high) if low < high else ():
            if message.key() is not None:
                change = self._decoder.change(message.value())
                name = RowName(change.key, change.window_start_ms, change.window_end_ms)
                if change.kind == TOMBSTONE:
                    table.delete(name)
                else:
                    table.put(name, shown_text({measure: plain(one) for measure, one in change.values.items()}))
                rows += 1
                continue
            end = self._decoder.end(message.value())
            if not end.last:
                continue
            self._check(partition, end, rows, known)
            known, rows = True, 0
            if end.sequence >= milestone.sequence:
                if end.sequence > milestone.sequence or end.generation != milestone.generation:
                    raise NotHeld(f"{milestone.token} was published as one with {end.sequence}")
                return
        raise NotYet(f"{self._topic}/{partition} does not hold the end of {milestone.token} yet")

    def _check(self, partition: int, end: End, rows: int, known: bool) -> None:
        if known and end.rows != rows:
            self.problems.append(
                f"{self._topic}/{partition} holds {rows} rows of sequence {end.sequence}, and its end marker "
                f"says {end.rows}"
            )
