"""Readers of changelog, view and output: each fills a table with the rows of one place at one milestone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Message

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.kafka.client import bounds, make_consumer, partition_count, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.client.decoding import Decoder, OutputDecoder
from cutwater.core.checks.state_comparison import PlaceRow, RowName, shown_text
from cutwater.core.errors import DivergenceError, UsageError
from cutwater.core.events.formats import CONFLUENT_HEADER_BYTES, is_confluent
from cutwater.core.job.job import TOMBSTONE, Job
from cutwater.core.job.panes import merged_windows
from cutwater.core.output.position import End
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Token
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Entry, Step, fresh
from cutwater.core.state.selection import Selection
from cutwater.verify.scratch import ScratchTable
from cutwater.views.changelog.milestone_rows import Updates
from cutwater.views.changelog.proof import require_whole
from cutwater.views.changelog.range_reader import Ranges
from cutwater.views.changelog.record_reader import RowReader
from cutwater.views.query.output_json import from_iso
from cutwater.views.query.presenter import Presenter, plain
from cutwater.views.store.window_rows import MergedValue, ValueMerge


class NotHeld(Exception):
    """The place does not hold the milestone separately; it may hold a later one."""


class NotYet(Exception):
    """The place has not reached the milestone yet."""


def shown_by(job: Job) -> Callable[[bytes], bytes]:
    """Return the function from a changelog value to the text that users see."""
    presenter = Presenter(job)
    return lambda value: shown_text({name: plain(one) for name, one in presenter.values(value).items()})


def single_object(job: Job) -> Callable[[bytes], bytes]:
    """Return the function from a changelog value in any framing to single-object encoding, for comparisons."""
    header = Codec(job.state_schema).header
    return lambda value: header + value[CONFLUENT_HEADER_BYTES:] if is_confluent(value) else value


def fill_from_changelog(
    job: Job, ranges: Ranges, entry: Entry, before: Cut, table: ScratchTable, now_ms: Any
) -> str:
    """Fill `table` with the newest row of each name below the milestone's cut and above its horizon.

    Returns why the milestone's own rows do not match its proof; empty if they do. Raises
    `views.changelog.proof.Overtaken` if compaction may have removed values below the cut.
    """
    milestone = entry.milestone
    range_ = ranges.between(Cut(), milestone, look_above=not fresh(milestone, now_ms()))
    take_rows(job, range_, milestone.horizon_ms, table)
    require_whole(milestone, range_.first_above_ms, now_ms())
    try:
        # `require_whole` has shown that nothing is compacted, so `Updates` gets the milestone's own time as now.
        for _ in Updates(job, ranges, lambda: milestone.written_ms).rows(Step(entry), before):
            pass
    except DivergenceError as error:
        return str(error)
    return ""


def take_rows(job: Job, messages: Iterable[Message], horizon_ms: int, table: ScratchTable) -> None:
    """Put the newest row of each name above the horizon; `messages`: in log order within each partition."""
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


def windows_in(job: Job, rows: Iterator[PlaceRow]) -> Iterator[PlaceRow]:
    """Return the windows that these rows are panes of, in order. The rows themselves, if each is a window."""
    if not job.overlap_ms:
        return rows
    return _windows_in(job, rows)


def _windows_in(job: Job, rows: Iterator[PlaceRow]) -> Iterator[PlaceRow]:
    values, size_ms = ValueMerge(job), job.window.size_ms
    for (shard, key), own in groupby(rows, key=lambda row: (row.shard, row.name.key)):
        held = list(own)
        panes = ((row.name.end_ms, MergedValue(row.value)) for row in held)
        try:
            windows = list(merged_windows(panes, job.window, values.merge))
        except UsageError:  # damaged bytes: the panes themselves, which no other place has
            yield from held
            continue
        for start_ms, value in windows:
            yield PlaceRow(shard, RowName(key, start_ms, start_ms + size_ms), values.encode(value))


class ViewInfo(NamedTuple):
    """Milestone and part of the state that a rehydrator reports for its rows."""

    token: Token
    partitions: list[int] | None
    """The partitions that it holds; None for all."""
    lower_ms: int | None
    """Windows that end at or below it are evicted to limit the size; None if none are."""
    selection: Selection | None
    """The selected rows; None for all."""


def fill_from_view(job: Job, api_url: str, headers: Mapping[str, str], table: ScratchTable) -> ViewInfo:
    """Fill `table` with all rows of the rehydrator. Return their milestone and the part of the state."""
    from cutwater.client.export.stream import open_export  # imports httpx, which takes 0.1 s

    framed = single_object(job)
    with open_export(api_url, headers) as found:
        for piece in found.pieces:
            for window, value in piece.rows():
                table.put(RowName(*window), framed(value))
        table.flush()
        lower = found.milestone.get("lower_bound")
        return ViewInfo(
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
        self._decoder: Decoder = OutputDecoder(job, cluster)
        self.problems: list[str] = []
        """End markers that do not match the rows before them."""
        self.is_truncated = False
        """Whether the retention has deleted records of the topic."""

    def fill(self, milestone: Milestone, table: ScratchTable) -> None:
        """Fill `table` with the last value of each row up to the milestone's end markers.

        Raises NotYet, or NotHeld if the milestone was published as one with later ones.
        """
        self.problems.clear()
        consumer = make_consumer(self._cluster)
        try:
            for partition in range(partition_count(self._cluster, self._topic)):
                self._partition(consumer, partition, milestone, table)
        finally:
            consumer.close()
        table.flush()

    def _partition(self, consumer: Consumer, partition: int, milestone: Milestone, table: ScratchTable) -> None:
        low, high = bounds(consumer, self._topic, partition)
        known, rows = low == 0, 0
        self.is_truncated |= low > 0
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
                f"{self._topic}/{partition} holds {rows} rows of sequence {end.sequence}, but its end marker "
                f"says {end.rows}"
            )
