"""What `cutwater plan` prints: commands for every place, and sizes as people read them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cutwater.adapters.job_files.loader import load_job
from cutwater.core.checks.acls import Acl
from cutwater.core.checks.capacity import Load, estimate
from cutwater.core.checks.plan import Mirroring, Plan, size
from cutwater.core.checks.replication import UNREPLICATED, Replication

JOB = load_job(Path(__file__).parents[4] / "deploy/jobs/flights.yaml")
READ = Acl("driver", "topic", "events", ("Read",))
PLAN = Plan(
    job="flights",
    source="events",
    bootstrap="kafka:9092",
    topics=(),
    existing=frozenset(),
    replication=UNREPLICATED,
    warnings=(),
    acls=(READ, replace(READ, service="watch")),
    load=Load(),
    estimate=estimate(JOB, Load()),
    measured=None,
    mirrors=(Mirroring("us", "far:9092", (READ,)),),
)


def servers(plan: Plan) -> list[str]:
    return [one.split()[2] for one in plan.commands("User:cutwater")]


def test_commands_name_the_brokers_that_they_are_for() -> None:
    """Each once, however many services ask for the same; where no brokers are known, a person fills them in."""
    assert servers(PLAN) == ["kafka:9092", "far:9092"]
    asked = replace(PLAN, bootstrap=None, mirrors=(Mirroring("us", None, (READ,)),))
    assert servers(asked) == ["HOST:PORT", "US-HOST:PORT"]


def test_the_largest_unit_has_separators_from_a_thousand_on() -> None:
    """Three digits would be a number with an exponent."""
    assert [size(one) for one in (999e12, 1e15, 1.0004e15)] == ["999 TB", "1,000 TB", "1,000 TB"]


def test_the_disk_after_thirty_days_is_told_over_all_copies() -> None:
    plan = replace(PLAN, replication=Replication(3, 2))
    told = plan.plain()["estimate"]["disk_bytes_after_30_days"]
    assert told == PLAN.estimate.disk_bytes(30, 3) > PLAN.estimate.disk_bytes(29, 3)
