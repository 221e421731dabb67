"""Spark's failures told apart by their text; without Spark."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError

from cutwater.core.errors import UsageError
from cutwater_spark.failures import explained, explaining

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
    with pytest.raises(UsageError) as told, explaining("flights.events", CHECKPOINT):
        raise Py4JError(text)
    assert f"does not let us to the checkpoint {CHECKPOINT}" in str(told.value)
    assert "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of the driver and of every executor" in str(told.value)
    assert isinstance(told.value.__cause__, Py4JError), "Spark's own words stay in the trace"


def test_a_folder_that_may_not_be_read_is_not_an_object_store() -> None:
    """The same exception of Java's, for a file of this machine: keys would be the wrong thing to look at."""
    assert explained(Py4JError(ON_A_DISK), "flights.events", CHECKPOINT) is None
    with pytest.raises(Py4JError), explaining("flights.events", CHECKPOINT):
        raise Py4JError(ON_A_DISK)
