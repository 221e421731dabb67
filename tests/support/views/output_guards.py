"""The guards of `committed()` on the output: an output written by hand for each of them, and a hole.

With the guard the reader is right, waits or stops, as the guard says; without it it does otherwise. They stand in
the table of docs/GUARANTEES.md (`reader_guards`); tests/broker/client/test_guards_of_the_output.py tries each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from cutwater.adapters.avro import protocol_records
from cutwater.client import from_output
from cutwater.core.job.job import UPDATE
from cutwater.core.output.milestone_assembly import Group, Grouping
from cutwater.core.output.position import End
from cutwater.core.protocol import topics
from cutwater.publisher.encoding import AvroEncoder
from support.views.changelogs import GENERATION, HOUR_MS, Rows, Sold, Writing, encoded
from support.views.reader_holes import Hole, off

RIGHT, WRONG, WAITS = "right", "wrong", "waits"
STOPS = "DivergenceError"
SHOPS = [f"s{number}" for number in range(12)]
ROWS = {sequence: [Sold(shop, sequence, 10 * sequence) for shop in SHOPS] for sequence in (1, 2, 3)}


class Output:
    """An output that is written as a publisher writes it, or otherwise."""

    def __init__(self, writing: Writing) -> None:
        self.cluster, self.job = writing.cluster, writing.job
        self.topic = topics.output(self.job.name)
        self._partition = writing.partition
        self._encoder = AvroEncoder(self.job)
        self._counts: dict[int, list[int]] = {}
        settings = {**self.cluster.librdkafka(), "transactional.id": f"{self.job.name}-by-hand"}
        self._producer = Producer(settings)
        self._producer.init_transactions(30)

    def milestone(
        self,
        sequence: int,
        rows: Iterable[Sold],
        part: int = 0,
        last: bool = True,
        lacks: Sequence[int] = (),
        lost: int = 0,
        abort: bool = False,
    ) -> None:
        """Write one transaction. `lacks`: partitions to which nothing goes. `lost`: rows of partition 1 that the
        end markers count and nobody wrote."""
        partitions = range(self.job.shards.partitions)
        counts = self._counts.setdefault(sequence, [0] * len(partitions))
        self._encoder.begin(sequence, UPDATE)
        self._producer.begin_transaction()
        for sold in rows:
            at = self._partition(sold.shop)
            counts[at] += 1
            if at not in lacks:
                key, value = encoded(self.job, sold)
                self._producer.produce(self.topic, partition=at, **self._encoder.records([key], [value])[0])
        for at in partitions:
            if at not in lacks:
                end = self._end(sequence, part, last, counts[at] + (lost if at == 1 else 0))
                self._producer.produce(self.topic, partition=at, value=protocol_records.encode(end))
        if abort:
            self._producer.flush(30)
            self._producer.abort_transaction(30)
            del self._counts[sequence]
        else:
            self._producer.commit_transaction(30)

    def _end(self, sequence: int, part: int, last: bool, rows: int) -> End:
        return End(self.job.name, GENERATION, sequence, sequence, part, last, rows, 0, 0, 0)

    def forget(self, rows: int) -> None:
        """Delete the first records of each partition, as a retention does: all of milestone 1 and some rows."""
        client = AdminClient(self.cluster.librdkafka())
        first = {at: self._counts[1][at] + 2 + rows for at in range(self.job.shards.partitions)}
        places = [TopicPartition(self.topic, at, offset) for at, offset in first.items()]
        for asked in client.delete_records(places).values():
            asked.result(30)


@dataclass(frozen=True)
class OutputGuard:
    """`holds`: what the reader does with it; without it, it does anything else. `truth`: the milestones whose rows
    it gives where it is right."""

    name: str
    write: Callable[[Output], None]
    holds: str
    hole: Hole
    truth: tuple[int, ...] = (1, 2, 3)

    @property
    def rows(self) -> Rows:
        return {(one.shop, one.hour * HOUR_MS): one.pieces for at in self.truth for one in ROWS[at]}


def torn(output: Output) -> None:
    """Kafka shows a transaction in one partition before it does in another."""
    output.milestone(1, ROWS[1])
    output.milestone(2, ROWS[2])
    output.milestone(3, ROWS[3], lacks=[0])


def row_lost(output: Output) -> None:
    output.milestone(1, ROWS[1])
    output.milestone(2, ROWS[2])
    output.milestone(3, ROWS[3], lost=1)


def milestone_lost(output: Output) -> None:
    output.milestone(1, ROWS[1])
    output.milestone(3, ROWS[3])


def lost_in_one_partition(output: Output) -> None:
    output.milestone(1, ROWS[1])
    output.milestone(2, ROWS[2], lacks=[0])
    output.milestone(3, ROWS[3])


def one_part_only(output: Output) -> None:
    """The publisher ended between two parts."""
    output.milestone(1, ROWS[1])
    output.milestone(2, ROWS[2])
    output.milestone(3, ROWS[3][:6], last=False)


def beginning_gone(output: Output) -> None:
    """A retention has deleted the first milestone, and a row of the second one's first part."""
    output.milestone(1, ROWS[1])
    output.milestone(2, ROWS[2][:6], last=False)
    output.milestone(2, ROWS[2][6:], part=1)
    output.milestone(3, ROWS[3])
    output.forget(1)


def aborted(output: Output) -> None:
    output.milestone(1, ROWS[1])
    output.milestone(2, ROWS[2])
    output.milestone(3, [one._replace(pieces=9_999) for one in ROWS[3]], abort=True)
    output.milestone(3, ROWS[3])


def any_end(self: Grouping) -> Any:
    """One partition's end is enough, whichever comes first."""
    for ended in self._ended:
        while ended and ended[0].end.sequence <= self._after:
            ended.popleft()
        if ended:
            found = ended.popleft()
            self._after = found.end.sequence
            return found.end, found.rows
    return None


def uncounted(self: Grouping, partition: int, end: End) -> None:
    if end.last:
        rows, self._open[partition] = self._open[partition], []
        self._ended[partition].append(Group(end, rows))


_end, _next, _take, _begin = Grouping.end, Grouping.next_complete, Grouping._take, Grouping.__init__


def whatever_follows(self: Grouping) -> Any:
    self._any = True
    return _take(self)


def whoever_is_behind(self: Grouping) -> Any:
    self._any = True
    return _next(self)


def parts_end(self: Grouping, partition: int, end: End) -> None:
    _end(self, partition, replace(end, last=True))


def from_its_beginning(self: Grouping, partitions: int, _cut_off: Sequence[int], after: int) -> None:
    _begin(self, partitions, (), after)


UNCOMMITTED = partial(from_output.LongLivedConsumer, **{"isolation.level": "read_uncommitted"})

OUTPUT_GUARDS = (
    OutputGuard("all end markers of a milestone", torn, WAITS, off(Grouping, "next_complete", any_end)),
    OutputGuard("as many rows as its end marker says", row_lost, STOPS, off(Grouping, "end", uncounted)),
    OutputGuard("no sequence left out", milestone_lost, STOPS, off(Grouping, "_take", whatever_follows)),
    OutputGuard(
        "no sequence left out in one partition",
        lost_in_one_partition,
        STOPS,
        off(Grouping, "next_complete", whoever_is_behind),
    ),
    OutputGuard("a part is no milestone", one_part_only, WAITS, off(Grouping, "end", parts_end)),
    OutputGuard(
        "nothing of a milestone whose beginning is gone",
        beginning_gone,
        RIGHT,
        off(Grouping, "__init__", from_its_beginning),
        (3,),
    ),
    OutputGuard(
        "nothing of an aborted transaction", aborted, RIGHT, off(from_output, "LongLivedConsumer", UNCOMMITTED)
    ),
)
