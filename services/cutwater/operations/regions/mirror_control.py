"""An operator pauses a mirror, or lets it continue."""

from __future__ import annotations

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.writers.transactional_writer import Batch, TransactionalWriter
from cutwater.core.protocol import mirror_records
from cutwater.core.protocol.mirror_records import Steering


def control_mirror(cluster: Cluster, job: str, region: str, paused: bool, now_ms: int) -> None:
    """Pause every process of the mirror of `region`, or let it continue at its position."""
    writer = TransactionalWriter(cluster, mirror_records.operator_id(job, region))
    writer.initialise()
    one = Steering(job, region, paused, now_ms)
    record = {"key": one.key, "value": protocol_records.encode(one)}
    writer.write_all([Batch(mirror_records.positions(job), 0, [record])])
