"""The proof of rows over Kafka: reads what stands on the changelog. `core.proof` decides."""

from __future__ import annotations

from collections.abc import Iterator

from confluent_kafka import Message

from cutwater.adapters.cluster import Cluster
from cutwater.adapters.kafka import end_offsets, headers_of, make_consumer, read_range
from cutwater.core.cuts import Cut
from cutwater.core.errors import DivergenceError, UsageError
from cutwater.core.generations import Generation
from cutwater.core.proof import ChangelogRow, Writer, Written, describe, foreign_rows, strays, suspects


class ProvedRows:
    """One generation's changelog topic, as the driver checks it."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int) -> None:
        self.topic = topic
        self.partitions = partitions
        self._consumer = make_consumer(cluster, **{"isolation.level": "read_uncommitted"})

    def ends(self) -> dict[int, int]:
        """The next offset of each partition."""
        return end_offsets(self._consumer, self.topic, self.partitions)

    def prove(self, baseline: Cut, me: Writer, written: Written) -> Cut:
        """The cut after this epoch, once it is sure that nothing but this epoch's rows was added.

        Raises DivergenceError naming the foreign records: the generation has ended.
        """
        ends = self.ends()
        for suspect in suspects(self._by_partition(baseline), ends, written.rows):
            records = list(self._range(suspect.partition, suspect.first, suspect.end))
            self._refuse(foreign_rows(records, me, suspect.rows), f"at the barrier of epoch {me.epoch}")
        return Cut.of_topic(self.topic, (ends[number] for number in range(self.partitions)))

    def check_start(self, baseline: Cut, generation: Generation, next_epoch: int, attempt: int) -> None:
        """Raise DivergenceError when records above the newest barrier are not of the epoch about to run."""
        for suspect in suspects(self._by_partition(baseline), self.ends(), {}):
            records = self._range(suspect.partition, suspect.first, suspect.end)
            self._refuse(strays(records, generation, next_epoch, attempt), "at the start")

    def check_idle(self, cut: Cut) -> None:
        """Raise DivergenceError when anything was added since the newest barrier."""
        for suspect in suspects(self._by_partition(cut), self.ends(), {}):
            self._refuse(list(self._range(suspect.partition, suspect.first, suspect.end)), "at a heartbeat")

    def grown(self, cut: Cut) -> bool:
        """Does anything stand above the cut?"""
        return bool(suspects(self._by_partition(cut), self.ends(), {}))

    def _by_partition(self, cut: Cut) -> dict[int, int]:
        return {place.partition: offset for place, offset in cut}

    def _range(self, partition: int, first: int, end: int) -> Iterator[ChangelogRow]:
        for message in read_range(self._consumer, self.topic, partition, first, end):
            yield ChangelogRow(partition, message.offset(), message.key(), message.value(), _writer(message))

    def _refuse(self, foreign: list[ChangelogRow], when: str) -> None:
        if foreign:
            raise DivergenceError(
                f"{when}, {self.topic} holds {len(foreign)} record(s) that this driver did not write: "
                f"{describe(foreign, self.topic)}. Another driver or a zombie executor writes to this generation. "
                "Stop it, and start a new generation from the last milestone; nothing foreign has been shown."
            )


def _writer(message: Message) -> Writer | None:
    headers = headers_of(message)
    try:
        generation = Generation.parse(headers["generation"].decode())
        return Writer(generation, int(headers["attempt"]), int(headers["epoch"]))
    except (KeyError, ValueError, AttributeError, TypeError, UsageError):
        return None
