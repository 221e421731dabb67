"""Garbage collection while the job runs: tombstones for windows below the horizon, between two epochs.

An idle job has no epochs, so its horizon stands still and nothing of it is cleared.
"""

from __future__ import annotations

from confluent_kafka import KafkaException, Producer

from cutwater.adapters.cluster import Cluster
from cutwater.core.collection import Place, due, places, sift
from cutwater.core.errors import UnavailableError
from cutwater.core.proof import Writer
from cutwater.core.records import Barrier
from cutwater_spark.changelog import Changelog

SLICE_RECORDS = 5_000
"""What is looked at in one epoch at least; of a larger epoch as many records as it wrote, so the look keeps up."""
SLICE_RECORDS_MAX = 100_000
FLUSH_S = 30.0

NEVER_MS = -(1 << 62)


class Collector:
    """Looks through the changelog in slices. Its place is in every barrier, so that the next attempt goes on."""

    def __init__(self, cluster: Cluster, changelog: Changelog, share: float, last: Barrier | None) -> None:
        """`share`: how much of the changelog must be below the horizon, in event time, before it is cleared."""
        self._changelog = changelog
        self._share = share
        self._places = places(changelog.partitions, last.collected if last else ())
        # No transaction: its markers would take offsets, and the proof of rows counts them.
        self._producer = Producer(
            {**cluster.librdkafka(), "enable.idempotence": True, "acks": "all", "compression.type": "lz4"}
        )

    @property
    def collected(self) -> tuple[int, ...]:
        """Per partition: below this offset there is nothing more to clear."""
        return tuple(place.position for place in self._places)

    def collect(self, me: Writer, before: Barrier | None) -> dict[int, int]:
        """Clear a slice of one partition, of what `before`, a committed barrier, says is below the horizon.

        Returns how many tombstones were written, by partition. Raises UnavailableError when one was not
        acknowledged: the epoch is then told again, and tombstones may come twice.
        """
        if before is None or before.horizon_ms <= 0 or self._share >= 1:
            return {}
        partition = me.epoch % self._changelog.partitions
        end = {place.partition: offset for place, offset in before.changelog_cut}.get(partition, 0)
        place = self._known(partition, end)
        if not due(place, before.horizon_ms, before.watermark_ms, self._share):
            return {}
        records_max = min(max(SLICE_RECORDS, before.rows), SLICE_RECORDS_MAX)
        records = self._changelog.records(partition, place.position, end)
        found = sift(records, end, before.horizon_ms, records_max)
        self._bury(partition, found.keys, me)
        self._places[partition] = found.place
        return {partition: len(found.keys)}

    def _known(self, partition: int, end: int) -> Place:
        """The place, with the age of the first row there."""
        place = self._places[partition]
        if place.oldest_ms is None and place.position < end:
            place = sift(self._changelog.records(partition, place.position, end), end, NEVER_MS, 0).place
            self._places[partition] = place
        return place

    def _bury(self, partition: int, keys: list[bytes], me: Writer) -> None:
        failures: list[str] = []

        def delivered(error: object, _message: object) -> None:
            if error is not None:
                failures.append(str(error))

        topic = self._changelog.topic
        headers = [(name, str(value).encode()) for name, value in zip(me._fields, me, strict=True)]
        try:
            for key in keys:
                self._producer.produce(topic, None, key, partition, delivered, headers=headers)
        except (KafkaException, BufferError) as error:
            failures.append(str(error))
        unsent = self._producer.flush(FLUSH_S)
        if failures or unsent:
            raise UnavailableError(
                f"{topic}/{partition}: of {len(keys)} tombstones {len(failures) + unsent} were not acknowledged "
                f"({failures[0] if failures else f'no answer within {FLUSH_S:.0f} s'})"
            )
