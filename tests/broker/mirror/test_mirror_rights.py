"""A mirror and its operator as users of their own, who may do just what docs/SECURITY.md lists."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.topics.mirror_topics import has_mirror
from cutwater.cli.main import app
from cutwater.core.checks import acls
from cutwater.core.checks.acls import MIRROR, MIRROR_TOOLS
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol import mirror_records
from support.kafka.users_broker import UsersBroker, users_broker
from support.regions.mirroring import ORIGIN, Events, arrivals, environment_of, process
from support.views.changelogs import Sold, Writing, make_job, until

PAGE = Path(__file__).parents[3] / "docs" / "SECURITY.md"
_ROW = re.compile(
    r"^\| (here|`[^`]+`) \| (\S+) \| (topic|group|transactional id) \| `([^`]+)` \| (\w+) \| ([\w, ]+) \|$",
    re.MULTILINE,
)
USERS = {MIRROR: "copies", MIRROR_TOOLS: "operates"}


def documented(where: str, **names: str) -> list[dict[str, Any]]:
    """The rows of the page for one region, as `cutwater plan --json` writes rights."""
    text, found = PAGE.read_text(encoding="utf-8"), []
    for what, means in names.items():
        text = text.replace(f"<{what.replace('_', '.')}>", means)
    for place, service, kind, name, pattern, operations in _ROW.findall(text):
        if (place == "here") == (where == "here"):
            told = {"service": service, "resource": kind.replace(" ", "-"), "name": name, "pattern": pattern}
            found.append({**told, "prefixed": pattern == "prefixed", "operations": operations.split(", ")})
    return found


def test_the_page_lists_what_plan_prints() -> None:
    names = {"job": "flights", "source_topic": "flights.events", "origin": "us"}
    here = acls.local_mirror_acls("flights", "flights.events", "us")
    assert documented("here", **names) == [one.plain() for one in here]
    assert documented("there", **names) == [
        one.plain() for one in acls.origin_mirror_acls("flights", "flights.events")
    ]


def test_of_an_attached_query_no_source_is_named() -> None:
    names = [one.name for one in (*acls.local_mirror_acls("mine", "", "us"), *acls.origin_mirror_acls("mine", ""))]
    assert all(name.startswith(("mine.", "cutwater")) for name in names)


def test_every_topic_of_a_mirror_has_somebody_who_makes_and_writes_it() -> None:
    held = {one.name: one.operations for one in acls.local_mirror_acls("flights", "flights.events", "us")[:5]}
    for spec in mirror_records.mirror_topics("flights", "us"):
        assert {"Create", "Write"} <= set(held[spec.name])
    assert all(
        one.startswith(mirror_records.ids("flights", "us"))
        for one in mirror_records.transactional_ids("flights", "us")
    )


def test_plan_prints_the_rights_of_both_regions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the option or by the setting; without either nothing of a mirror."""
    job, path = make_job(tmp_path)

    def plan(*words: str) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(CliRunner().invoke(app, ["plan", str(path), "--json", *words]).stdout)
        return told

    assert plan()["mirrors"] == []
    found = plan("--mirror-of", "us")
    assert [one for one in found["acls"] if one["service"].startswith(MIRROR)] == documented(
        "here", job=job.name, source_topic=job.topic, origin="us"
    )
    ((region, listed),) = [(one["region"], one["acls"]) for one in found["mirrors"]]
    assert (region, listed) == ("us", documented("there", job=job.name, source_topic=job.topic, origin="us"))
    assert [one for one in found["commands"] if "US-HOST:PORT" in one and f"--topic {job.topic}" in one]
    monkeypatch.setenv("CUTWATER_ORIGIN_REGION", "us")
    monkeypatch.setenv("CUTWATER_ORIGIN_BOOTSTRAP_SERVERS", "kafka-us:9092")
    assert [one for one in plan()["commands"] if "--bootstrap-server kafka-us:9092" in one]


@pytest.fixture
def regions(tmp_path: Path, kafka_jars: list[Path]) -> Iterator[tuple[UsersBroker, UsersBroker]]:
    """The mirror's own, and the one that is copied."""
    with ExitStack() as stack:
        own, there = (
            stack.enter_context(users_broker(tmp_path / name, kafka_jars, list(USERS.values())))
            for name in ("own", "there")
        )
        yield own, there


@pytest.mark.slow
def test_a_mirror_runs_and_is_operated_with_these_rights_alone(
    regions: tuple[UsersBroker, UsersBroker], tmp_path: Path
) -> None:
    own, there = regions
    job, path = make_job(tmp_path)
    for where, broker in (("here", own), ("there", there)):
        for service, user in USERS.items():
            rows = documented(where, job=job.name, source_topic=job.topic, origin=ORIGIN)
            broker.grant(user, [one for one in rows if one["service"] == service])
    copies, operates = ([one.cluster(user) for one in regions] for user in USERS.values())
    cli = CliRunner(env=environment_of(*operates))
    writing = Writing(there.admin, job)
    events = Events(writing)

    def arrived(sequence: int) -> None:
        events.produce(30)
        writing.epoch([Sold("a", 1, sequence)], source_cut=events.cut())
        running = process(copies[0], copies[1], path, tmp_path / "log")
        try:
            until(lambda: last(own, job) >= sequence, "the arrival")
        finally:
            running.kill()

    arrived(1)
    for word in ("pause", "resume", "status"):
        done = cli.invoke(app, ["mirror", word, str(path)])
        assert (done.exit_code, done.stderr) == (0, "")
    (replica,) = json.loads(cli.invoke(app, ["regions", str(path), "--json"]).stdout)["replicas"]
    assert replica["milestones"] == 0
    again = cli.invoke(app, ["mirror", "resync", str(path), "--topic", writing.topic, "--yes"])
    assert again.exit_code == 0, again.stderr
    assert "missing on the audit log" not in again.stderr
    arrived(2)
    assert "may not" not in (tmp_path / "log").read_text()
    with pytest.raises(UsageError):
        TransactionalWriter(copies[1], mirror_records.slot_id(job.name, ORIGIN, 0)).initialise()
    writing.close()


def last(own: UsersBroker, job: Job) -> int:
    """The sequence of the newest arrival; 0 before the first."""
    found = arrivals(own.admin, job) if has_mirror(own.admin, job.name) else []
    return found[-1].sequence if found else 0
