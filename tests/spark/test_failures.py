"""Spark's failures told apart by their text; without Spark."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError

from cutwater.core.errors import MachineError, UsageError
from cutwater_spark.tools.failures import explain_failures, explanation, root_cause

CHECKPOINT = "s3a://kept/flights"
CALLING = "An error occurred while calling o74.start.\n: "
NOT_ALLOWED = (
    f"{CALLING}java.nio.file.AccessDeniedException: s3a://kept/flights/metadata: "
    "getFileStatus on s3a://kept/flights/metadata: software.amazon.awssdk.services.s3.model.S3Exception: null "
    "(Service: S3, Status Code: 403, Request ID: ABC):null"
)
NO_KEYS = (
    f"{CALLING}java.nio.file.AccessDeniedException: kept: "
    "org.apache.hadoop.fs.s3a.auth.NoAuthWithAWSException: No AWS Credentials provided"
)
ON_A_DISK = (
    "An error occurred while calling o74.start.\n: java.nio.file.AccessDeniedException: /kept/flights/metadata"
)


@pytest.mark.parametrize("text", [NOT_ALLOWED, NO_KEYS])
def test_an_object_store_that_does_not_let_in_is_named_with_what_to_check(text: str) -> None:
    """No restart mends it: wrong keys, none at all, or a user who may not."""
    with pytest.raises(UsageError) as told, explain_failures("flights.events", CHECKPOINT):
        raise Py4JError(text)
    assert f"denies access to the checkpoint {CHECKPOINT}" in str(told.value)
    assert "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of the driver and of every executor" in str(told.value)
    assert isinstance(told.value.__cause__, Py4JError), "Spark's own words stay in the trace"


def test_a_folder_that_may_not_be_read_is_not_an_object_store() -> None:
    """The same exception of Java's, for a file of this machine: keys would be the wrong thing to look at."""
    assert explanation(Py4JError(ON_A_DISK), "flights.events", CHECKPOINT) is None
    with pytest.raises(Py4JError), explain_failures("flights.events", CHECKPOINT):
        raise Py4JError(ON_A_DISK)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("An error occurred while calling o7.save.\n: a\nCaused by: b: 1\n\tat c\nCaused by: d\n\tat e\n", "d"),
        ("[TABLE] no such table\n\nJVM stacktrace:\n  at c", "[TABLE] no such table"),
        ("", ""),
    ],
)
def test_the_root_cause_is_the_last_one_named(text: str, cause: str) -> None:
    """One line for whoever reads why a driver ends again and again; else what the error begins with."""
    assert root_cause(text) == cause


@pytest.mark.parametrize(
    "cause",
    [
        "org.apache.hadoop.fs.ChecksumException: Checksum error: /kept/offsets/3 at 0",
        "java.lang.IllegalStateException: Failed to read log file file:/kept/commits/3. Incomplete log file in "
        "the offset commit log",
    ],
)
def test_a_damaged_checkpoint_is_named_with_its_file(cause: str) -> None:
    """The first line that says so; the second kind is an empty file, as after a power failure."""
    found = explanation(Py4JError(f"{CALLING}Failed.\nCaused by: {cause}\n\tat c"), "flights.events", "/kept")
    assert isinstance(found, MachineError)
    assert f"the checkpoint /kept is damaged: {cause}. Put back a copy" in str(found)
