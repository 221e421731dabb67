"""The rights that each service asks for: enough for every generation that is still to come."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cutwater.core.checks.acls import (
    MIRROR,
    MIRROR_TOOLS,
    Acl,
    local_mirror_acls,
    origin_mirror_acls,
    required_acls,
)
from cutwater.core.checks.source_topic import covers
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.mirror_records import from_origin
from support.protocol_samples import GENERATION, JOB, OTHER

SOURCE = "flights.events"


def here() -> list[Acl]:
    return local_mirror_acls(JOB, SOURCE, "us")


def origin() -> list[Acl]:
    return origin_mirror_acls(JOB, SOURCE)


def job() -> list[Acl]:
    return required_acls(JOB, SOURCE, GENERATION)


def may(acls: list[Acl], service: str, topic: str) -> set[str]:
    mine = (one for one in acls if (one.service, one.resource) == (service, "topic") and covers(one, topic))
    return {operation for one in mine for operation in one.operations}


@pytest.mark.parametrize("generation", [GENERATION, OTHER])
@pytest.mark.parametrize(
    ("acls", "service", "operation"),
    [
        (job, "driver", "Write"),
        (job, "rehydrator", "Read"),
        (here, MIRROR, "Create"),
        (here, MIRROR_TOOLS, "Delete"),
        (origin, MIRROR, "Read"),
        (origin, MIRROR_TOOLS, "DescribeConfigs"),
    ],
)
def test_rights_on_changelogs_hold_for_every_generation(
    acls: Callable[[], list[Acl]], service: str, operation: str, generation: Generation
) -> None:
    """A generation has a changelog of its own, which does not exist when the rights are given."""
    assert operation in may(acls(), service, topics.changelog(JOB, generation))


def test_a_right_on_a_topic_of_one_name_is_for_no_other() -> None:
    """Only changelogs, transactional ids and Spark's groups are named by a prefix."""
    named = [
        one for one in (*here(), *origin()) if one.resource == "topic" and not one.name.endswith(".changelog.")
    ]
    assert named
    assert not [one for one in named if one.prefixed]


def test_nothing_is_written_in_the_region_that_is_mirrored() -> None:
    assert {operation for one in origin() for operation in one.operations} == {"Read", "DescribeConfigs"}


def test_a_driver_may_use_what_is_named_only_later() -> None:
    """The copies of other regions' sources, its transactional ids, and the groups that Spark makes up."""
    assert may(job(), "driver", from_origin(SOURCE, "us")) == {"Read"}
    others = {one.resource: one for one in job() if one.service == "driver" and one.prefixed}
    assert covers(others["transactional-id"], f"{topics.generation_ids(JOB)}{OTHER}")
    assert covers(others["group"], "spark-kafka-source-5b1e93c0-driver-0")
