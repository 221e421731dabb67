"""Spark's failures that an operator can fix, recognised by their text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from cutwater.core.errors import CutwaterError, UsageError
from cutwater.core.protocol.topics import TIMESTAMP_AHEAD, TIMESTAMP_AHEAD_MS_MAX
from cutwater_spark.checkpoint import explain_damage

_CAUSE = "Caused by: "
_DAMAGED = (
    "ChecksumException",
    "Incomplete log file",
    "[STREAMING_CHECKPOINT_MISSING_METADATA_FILE]",
    "[STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY]",
)
"""The second: a power failure has left an empty file, and an empty checksum beside it, which proves nothing. The
others: with nothing there Spark would start another query, or an empty state (SPARK-55058)."""
_NO_BUCKET = ("UnknownStoreException", "NoSuchBucketException")
_NOT_LET_IN = ("AccessDeniedException: s3a:", "NoAuthWithAWSException")
_TOO_FAR_AHEAD = ("java.lang.ArithmeticException: long overflow", "KafkaRecordToRowConverter")


@contextmanager
def explain_failures(topic: str, checkpoint: str, undatable: Callable[[], list[str]] = list) -> Iterator[None]:
    """Replace a known Spark error by one that says what to do. `undatable`: finds records Spark cannot date."""
    try:
        yield
    except (Py4JError, PySparkException) as error:
        if found := explanation(error, topic, checkpoint, undatable):
            raise found from error
        raise


def explanation(
    error: BaseException, topic: str, checkpoint: str, undatable: Callable[[], list[str]] = list
) -> CutwaterError | None:
    """Return the error to report instead; None to keep Spark's. A restart fixes none of these."""
    text = str(error)
    if all(sign in text for sign in _TOO_FAR_AHEAD):
        where: list[str] = []
        with suppress(CutwaterError):
            where = undatable()
        return UsageError(
            f"a record of {topic} is dated further ahead than Spark can hold (nanoseconds for milliseconds?)"
            f"{''.join(f'; it is {one}' for one in where)}: Spark's Kafka source fails there and cannot skip the "
            f"record. Correct the producer, set {TIMESTAMP_AHEAD}={TIMESTAMP_AHEAD_MS_MAX} on topics so "
            "that brokers refuse such records, and start a job with another name "
            "(docs/OPERATING.md#a-record-that-spark-cannot-date)"
        )
    if any(sign in text for sign in _NO_BUCKET):
        return UsageError(
            f"the checkpoint {checkpoint} names a bucket that does not exist. Create it, or correct "
            "CUTWATER_CHECKPOINT or CUTWATER_S3_ENDPOINT"
        )
    if any(sign in text for sign in _NOT_LET_IN):
        return UsageError(
            f"the object store denies access to the checkpoint {checkpoint}. Check AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY of the driver and of every executor, and the permissions of their user"
        )
    lines = [line for line in text.splitlines() if any(sign in line for sign in _DAMAGED)]
    if lines:
        return explain_damage(checkpoint, lines[0].removeprefix("Caused by: ").lstrip(": ")[:500])
    return None


def root_cause(text: str) -> str:
    """Return the last cause in the text of a Spark error, else its first line."""
    lines = [one.strip() for one in text.splitlines() if one.strip()] or [""]
    causes = [one.removeprefix(_CAUSE) for one in lines if one.startswith(_CAUSE)]
    return causes[-1] if causes else lines[0]
