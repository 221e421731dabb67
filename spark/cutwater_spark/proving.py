"""The proof of rows over Kafka: reads what stands on the changelog. `core.proof` decides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cutwater.adapters.avro import Codec
from cutwater.adapters.clientlog import QUIET
from cutwater.adapters.cluster import Cluster
from cutwater.adapters.ends import Ends
from cutwater.adapters.kafka import headers_of, make_consumer, read_range
from cutwater.core.collection import is_garbage
from cutwater.core.cuts import Cut
from cutwater.core.errors import ForeignRowsError, UsageError
from cutwater.core.generations import Generation
from cutwater.core.job import PLAIN_KEY_SCHEMA
from cutwater.core.proof import (
    WRITER_HEADER,
    ChangelogRow,
    Suspect,
    Writer,
    Written,
    describe,
    foreign_rows,
    strays,
    suspects,
)
from cutwater.core.records import Barrier


class ProvedRows:
    """One generation's changelog topic, as the driver checks it."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int) -> None:
        self.topic = topic
        self.partitions = partitions
        self._consumer = make_consumer(cluster, **{"isolation.level": "read_uncommitted", **QUIET})
        self._ends = Ends(cluster)

    def ends(self) -> dict[int, int]:
        """The next offset of each partition."""
        return self._ends.of(self.topic, self.partitions)

    def prove(self, before: Barrier | None, me: Writer, written: Written, buried: Mapping[int, int]) -> Cut:
        """The cut after this epoch, once it is sure that only its rows and `buried` tombstones were added.

        Raises ForeignRowsError naming the foreign records: the generation has ended.
        """
        ends = self.ends()
        added = {number: rows + buried.get(number, 0) for number, rows in written.rows.items()}
        for suspect in suspects(_baseline(before), ends, added):
            rows = written.rows[suspect.partition]
            foreign = foreign_rows(self._living(suspect, me.generation, before), me, rows)
            self._refuse(foreign, f"at the barrier of epoch {me.epoch}")
        return Cut.of_topic(self.topic, (ends[number] for number in range(self.partitions)))

    def check_start(self, before: Barrier | None, generation: Generation, next_epoch: int, attempt: int) -> None:
        """Raise ForeignRowsError when records above the newest barrier are not of the epoch about to run."""
        for suspect in suspects(_baseline(before), self.ends(), {}):
            records = self._living(suspect, generation, before)
            self._refuse(strays(records, generation, next_epoch, attempt), "at the start")

    def check_idle(self, barrier: Barrier) -> None:
        """Raise ForeignRowsError when anything was added since the newest barrier."""
        for suspect in suspects(_baseline(barrier), self.ends(), {}):
            self._refuse(list(self._living(suspect, barrier.generation, barrier)), "at a heartbeat")

    def grown(self, before: Barrier | None) -> bool:
        """Does anything stand above the barrier?"""
        return bool(suspects(_baseline(before), self.ends(), {}))

    def records(self, partition: int, first: int, end: int) -> Iterator[ChangelogRow]:
        """What one partition holds from `first` up to `end`, tombstones included."""
        for message in read_range(self._consumer, self.topic, partition, first, end):
            key, writer = message.key(), Writer.of_header(headers_of(message).get(WRITER_HEADER))
            yield ChangelogRow(partition, message.offset(), key, message.value(), writer, _window_end_ms(key))

    def _living(self, suspect: Suspect, generation: Generation, before: Barrier | None) -> Iterator[ChangelogRow]:
        """The records but garbage: a tombstone below the horizon changes nothing, whichever attempt wrote it."""
        horizon_ms = before.horizon_ms if before else 0
        for record in self.records(suspect.partition, suspect.first, suspect.end):
            if not is_garbage(record, generation, horizon_ms):
                yield record

    def _refuse(self, foreign: list[ChangelogRow], when: str) -> None:
        if foreign:
            raise ForeignRowsError(
                f"{when}, {self.topic} holds {len(foreign)} record(s) that this driver did not write: "
                f"{describe(foreign, self.topic)}. Another driver or a zombie executor writes to this generation. "
                "Stop it, and start a new generation from the last milestone; nothing foreign has been shown."
            )


_KEYS = Codec(PLAIN_KEY_SCHEMA)


def _window_end_ms(key: bytes | None) -> int | None:
    try:
        return int(_KEYS.decode(key or b"")["window_end"])
    except UsageError:
        return None


def _baseline(barrier: Barrier | None) -> dict[int, int]:
    """Where the changelog ended at a barrier, by partition."""
    return {place.partition: offset for place, offset in barrier.changelog_cut} if barrier else {}
