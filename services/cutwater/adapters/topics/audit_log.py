"""The audit log on its topic."""

from __future__ import annotations

from dataclasses import asdict

from cutwater.adapters.avro.codec import protocol_codec
from cutwater.adapters.avro.protocol_records import millis
from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.client import wait_for_broker
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.single_record import newest_values, write_record
from cutwater.core.access.audit_log import Argument, AuditRecord, AuditRecords
from cutwater.core.checks import replication
from cutwater.core.errors import UsageError
from cutwater.core.protocol import topics

WRITE_S = 5.0
"""Maximum time until a broker answers, and until a record is acknowledged."""


class AuditLog:
    """Writes the records of one process. Its topic is made if a job of an earlier version has none."""

    def __init__(self, cluster: Cluster, replication_factor: int, min_insync: int) -> None:
        self._cluster = cluster
        self._copies = (replication_factor, min_insync)
        self._known: set[str] = set()

    def write(self, one: AuditRecord) -> None:
        """Return once the record is acknowledged. Raises CutwaterError if it is not, or no broker answers."""
        topic = topics.audit(one.job)
        if topic not in self._known:
            wait_for_broker(self._cluster, WRITE_S)  # the requests below would wait longer
            self._require(topic, one.job)
        write_record(self._cluster, topic, encode(one), WRITE_S)

    def _require(self, topic: str, job: str) -> None:
        if topic not in admin.descriptions(self._cluster, [topic]):
            copies = replication.decide(admin.brokers(self._cluster), *self._copies)
            admin.create_topics(self._cluster, [topics.audit_topic(job)], copies)
        self._known.add(topic)


def encode(one: AuditRecord) -> bytes:
    arguments = [argument._asdict() for argument in one.arguments]
    return protocol_codec("audit").encode({**asdict(one), "arguments": arguments})


def decode(data: bytes) -> AuditRecord:
    """Decode a record of the log. Raises UsageError for bytes of another schema."""
    plain = protocol_codec("audit").decode(data)
    times = {name: millis(plain[name]) for name in ("begun_ms", "written_ms")}
    return AuditRecord(**{**plain, **times, "arguments": tuple(Argument(**one) for one in plain["arguments"])})


def read_audit(cluster: Cluster, job: str, records: int) -> AuditRecords:
    """Return the newest `records` records, in log order. Raises UsageError if the topic does not exist."""
    found: list[AuditRecord] = []
    unreadable = 0
    for value in newest_values(cluster, topics.audit(job), records):
        try:
            found.append(decode(value))
        except UsageError:
            unreadable += 1
    return AuditRecords(found, unreadable)
