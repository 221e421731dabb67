"""Acts on one job, by its topics."""

from __future__ import annotations

from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics import mirror_topics
from cutwater.adapters.topics.audit_log import AuditLog
from cutwater.console.ports import JobPlace
from cutwater.core.access.audit_log import AuditRecord
from cutwater.core.errors import UsageError
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Hold
from cutwater.operations.generations.claims import Claims
from cutwater.operations.regions.mirror_control import control_mirror


class KafkaOperator:
    """The topics of one job, for one action. Implements `JobOperator`."""

    def __init__(self, place: JobPlace) -> None:
        """Raises UsageError for a job file that cannot be read."""
        settings = place.settings
        self._cluster, self._job = place.cluster, load_job(place.job_file)
        self._claims = Claims(place.cluster, self._job, settings.region, now_ms)
        self._log = AuditLog(place.cluster, settings.replication_factor, settings.min_insync_replicas)

    def promote(self, generation: Generation) -> None:
        """Request a promotion."""
        self._claims.promote(generation)

    def hold(self, generation: Generation, for_ms: int, by: str, reason: str) -> Hold:
        """Let a candidate's promotion wait."""
        return self._claims.hold(generation, for_ms, by, reason)

    def release(self, generation: Generation, by: str, reason: str) -> bool:
        """End a candidate's hold; return whether it had one."""
        return self._claims.release(generation, by, reason)

    def drop(self, generation: Generation, reason: str) -> None:
        """Give a candidate up."""
        self._claims.abort(generation, reason)

    def steer(self, origin: str, paused: bool) -> None:
        """Pause the mirror of a region, or let it continue. Raises UsageError if it has no mirror here."""
        job = self._job.name
        if not mirror_topics.has_mirror(self._cluster, job):
            raise UsageError(f"no mirror of {job} has run at {self._cluster.bootstrap}")
        if origin not in mirror_topics.positions(self._cluster, job).copies:
            raise UsageError(f"nothing of {job} is copied from {origin}")
        control_mirror(self._cluster, job, origin, paused, now_ms())

    def write(self, record: AuditRecord) -> None:
        """Write to the audit log; return once the record is acknowledged."""
        self._log.write(record)
