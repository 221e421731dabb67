"""A job without brokers: constructed records in the place of its topics, constructed answers for its rehydrator.

Serve its pages, to look at them: python -m support.console.sample_job [--milestones 100000] [--partitions 10000]
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.config.settings import Settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.console.follower import JobFollower
from cutwater.console.ports import JobPlace, RegionState, Restorable, RunningJob, SourceEnd
from cutwater.console.service import Console
from cutwater.core.access.audit_log import BEGUN, Argument, AuditRecord, AuditRecords
from cutwater.core.access.roles import digest_of
from cutwater.core.driver.rejected_events import Choice, EventPosition, LatePair, Letter, Listed
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.generations.candidates import Candidates, fold_candidates
from cutwater.core.generations.holds import make_hold
from cutwater.core.job.shards import ShardMap
from cutwater.core.mirror.replica_lag import SafeTime
from cutwater.core.monitoring.alert_rules import Limits
from cutwater.core.monitoring.alerts import Alert
from cutwater.core.monitoring.job_status import JobStatus, Reader
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.mirror_records import Mirrored, Steering
from cutwater.core.protocol.records import Barrier, Claim, Hold, Milestone
from cutwater.core.protocol.recovery_log import Fact, Recovery, Took
from cutwater.core.state.point_in_time_restore import RestorableSnapshot, Target
from cutwater.core.util.timestamps import iso
from cutwater.operations.job_status import Read
from support.protocol_samples import GENERATION, JOB, OTHER, barrier, milestone
from support.regions.mirror_samples import golden_mirror_record

JOB_FILE = Path(__file__).parents[3] / "deploy/jobs/flights.yaml"
NOW_MS = 1_767_225_600_000
"""The constructed jobs' present: 2026-01-01."""
EVERY_MS = 5_000
HOSTILE = '<img src=x onerror="document.title=1">"\u202eJFK'
"""A text of somebody else, which no page may take for HTML."""
HELD = Generation(3, "local", "00c0ffee")
"""A candidate whose promotion is held for an hour."""
BY = Listed(GENERATION, 1, 7)
AUDIT = [
    AuditRecord(
        **{"id": f"{number:032x}", "job": JOB, "actor": actor, "role": role, "via": "console"},
        **{"process": "ubuntu@node-1:4711 for 127.0.0.1", "action": action, "object": object_},
        **{"arguments": (Argument("reason", HOSTILE),), "begun_ms": NOW_MS - 9_000 + number},
        **{"written_ms": NOW_MS - 8_000 + number, "outcome": outcome, "detail": detail},
    )  # type: ignore[arg-type]
    for number, (actor, role, action, object_, outcome, detail) in enumerate(
        [
            ("ubuntu@node-1", "", "generation start", "the newest milestone", "done", f"{OTHER} is claimed"),
            ("alice", "owner", "generation promote", str(OTHER), "failed", HOSTILE),
            ("alice", "owner", "rollback", f"{GENERATION}:7", "begun", ""),
        ]
    )
]
TOKENS = {"viewer": "a-token-of-a-viewer", "operator": "a-token-of-an-operator", "owner": "a-token-of-an-owner"}
PLAIN = "a-token-without-a-role"


def with_roles(**changes: Any) -> Settings:
    """Settings with a token of each role, named as their roles are, and one without."""
    named = ",".join(f"my-{role}:{role}:{digest_of(one.encode()).hex()}" for role, one in TOKENS.items())
    return Settings(api_token=PLAIN, tokens=named, **changes)  # type: ignore[arg-type]


AWAY = "the brokers at 127.0.0.1:1 do not answer; check that they run"


def milestones(many: int, partitions: int, end_ms: int = NOW_MS) -> Iterator[Milestone]:
    """A stream of milestones that ends at `end_ms`: waves of load, and a hot partition in the second half."""
    one: Milestone | None = None
    cut = Cut.of_topic(topics.changelog(JOB, GENERATION), [1] * partitions)
    for number in range(many):
        at = end_ms - (many - 1 - number) * EVERY_MS
        wave = 1 + math.sin(number / 40)
        hot = partitions // 3 if number > many // 2 else 0
        rows = _rows(partitions, wave, hot, number, many)
        took = 800 + int(400 * wave) + (9_000 if number % 997 == 500 else 0)
        one = milestone(
            number,
            one,
            parent_hash=b"\0" * 32,
            changelog_cut=cut,
            committed_ms=at,
            written_ms=at - 120 - int(60 * wave),
            epoch_started_ms=at - 120 - took,
            watermark_ms=at - 3_600_000,
            rows=sum(rows),
            events=int(2_000 * wave) + 10,
        )
        # `milestone` gives all rows to the first partition.
        yield replace(one, partition_rows=rows)


def _rows(partitions: int, wave: float, hot: int, number: int, many: int) -> tuple[int, ...]:
    if partitions > 64 and number < many - 400:
        return ()  # only the newest are folded by partition
    low = int(20 * wave) + 1
    found = [low + (at * 7 + number) % 5 for at in range(partitions)]
    if hot:
        found[hot] = 40 * low
    return tuple(found)


def last_status(newest: Milestone | None, generation: Generation = GENERATION) -> JobStatus:
    """The status of a job that works, one epoch ahead of its newest milestone."""
    status = JobStatus(JOB, generation, 60_000, attempt=1)
    if newest is None:
        return status
    written = newest.committed_ms + 1_500
    ahead = barrier(
        newest.epoch + 1,
        epoch_started_ms=newest.committed_ms,
        written_ms=written,
        source_cut=Cut.of_topic("flights.events", [100 * (newest.epoch + 2), 90 * (newest.epoch + 2)]),
    )
    return replace(
        status,
        processed=ahead,
        confirmed=newest.epoch,
        committed=newest,
        spoke_ms=written,
        publisher=Reader(newest.sequence, newest.committed_ms + 200),
        view=Reader(newest.sequence, newest.committed_ms + 60),
    )


@dataclass
class ConstructedReader:
    """The topics of a job. `away`: no broker answers; `empty`: the job has just started."""

    many: int = 400
    partitions: int = 12
    shards: int = 1024
    away: bool = False
    empty: bool = False
    alerts: Sequence[Alert] = ()
    coming: list[Read] = field(default_factory=list)
    """Records that the next poll returns."""
    requests: list[Hold] = field(default_factory=list)
    """Later records about the candidates."""

    def __post_init__(self) -> None:
        found = load_job(JOB_FILE)
        self.job = replace(found, shards=ShardMap(self.shards, min(self.shards, self.partitions)))
        self._newest: Milestone | None = None
        if not self.empty:
            only = next(milestones(1, self.partitions))
            self._newest = replace(only, sequence=self.many, epoch=self.many - 1)

    def _ask(self) -> None:
        if self.away:
            raise UnavailableError(AWAY)

    def status(self) -> JobStatus:
        self._ask()
        known = {one.key: one for one in self.alerts}
        return replace(last_status(self._newest), alerts=known)

    def history(self) -> Iterable[Milestone]:
        self._ask()
        return () if self.empty else milestones(self.many, self.partitions)

    def published(self) -> Iterable[tuple[int, int]]:
        self._ask()
        first = max(1, self.many - 2_000)
        at = [NOW_MS - (self.many - one) * EVERY_MS for one in range(first, self.many + 1)]
        return [] if self.empty else [(first + number, one + 180 + number % 90) for number, one in enumerate(at)]

    def poll(self, status: JobStatus) -> Sequence[Read]:
        self._ask()
        found, self.coming = self.coming, []
        return found

    def source_end(self, status: JobStatus) -> SourceEnd | None:
        self._ask()
        ends = [0, 0] if self.empty else [100 * (self.many + 2), 90 * (self.many + 1)]
        return SourceEnd(Cut.of_topic("flights.events", ends), 0)

    def close(self) -> None: ...

    def generations(self) -> tuple[Candidates, dict[Generation, Milestone]]:
        self._ask()
        if self.empty or self._newest is None:
            return Candidates(), {}
        found = self.candidates()
        return found, dict.fromkeys(found.by_id, self._newest)

    def candidates(self) -> Candidates:
        """A candidate that catches up, and one whose promotion is held."""
        self._ask()
        if self._newest is None:
            return Candidates()
        own = replace(
            self._newest, generation=OTHER, sequence=1, source_cut=Cut.of_topic("flights.events", [9, 9])
        )
        return fold_candidates(
            [
                _claim(OTHER, NOW_MS - 60_000, reason="twice the partitions", partitions=24),
                _claim(HELD, NOW_MS - 30_000, reason=HOSTILE, partitions=12),
                own,
                make_hold(JOB, HELD, 3_600_000, "watch", HOSTILE, NOW_MS - 20_000),
                *self.requests,
            ]
        )

    def regions(self) -> RegionState:
        self._ask()
        if self.empty:
            return RegionState("local", [], {}, {})
        safe = SafeTime(
            "us", "g1-us-00000000:41", NOW_MS - 60_000, 2_300, 3, 1_500, 1_200, 480_000, 900, 350.5, 3.4
        )
        copies: list[Mirrored] = [replace(golden_mirror_record(Mirrored), origin="us")]
        return RegionState(
            "eu",
            [(safe, Steering(JOB, "us", True, NOW_MS))],
            {"us": copies},
            {"us": {"flights.events": NOW_MS - 5_000}},
        )

    def trail(self) -> Sequence[Recovery]:
        self._ask()
        if self.empty:
            return []
        facts, steps = (Fact("newest milestone", "g1-local-00000000:41"),), (Took("open the store", 210),)
        told = "continue after milestone 41"
        first = Recovery(
            JOB, GENERATION, "rehydrator", "node-1:4711", 0, NOW_MS - 90_000, "running", told, facts, steps
        )
        return [first, replace(first, service="driver", attempt=2, outcome="stopped", decision=HOSTILE)]

    def actions(self) -> AuditRecords:
        self._ask()
        return AuditRecords([] if self.empty else AUDIT)

    def restorable(self, generation: Generation) -> Restorable:
        self._ask()
        if self.empty or self._newest is None:
            return Restorable([], [], [])
        found = [one for one in milestones(min(self.many, 200), 2) if one.sequence != 20]
        kept = RestorableSnapshot(found[0], 12, 34_000_000)
        return Restorable(found, [kept], ["snapshot not usable: sequence 3, reason damaged"])

    def windows_at(self, at: str, key: str, start: str | None, end: str | None, limit: int) -> dict[str, Any]:
        self._ask()
        target = Target.of(at)
        if target.token is None:
            raise UsageError(f"the commit stream does not hold a milestone committed by {at}")
        return windows_of(key, target.token.sequence)

    def dead_letters(self) -> Choice[Letter]:
        self._ask()
        if self.empty:
            return Choice([], [])
        one = Letter(
            EventPosition("flights.events", 0, 5),
            BY,
            "invalid",
            HOSTILE.encode() + b"\xff",
            1_234,
            NOW_MS,
            None,
            (0, 0),
            field="delay_minutes",
            rule="is not an int",
            head=b"{\x00\xffsecret",
        )
        more = [
            replace(one, event=EventPosition("flights.events", 1, at), reason="undecodable") for at in range(70)
        ]
        return Choice([one, *more], ["epoch 3: its milestone counts 2, the list holds 1"])

    def late(self) -> Choice[LatePair]:
        self._ask()
        if self.empty:
            return Choice([], [])
        hour = 3_600_000
        return Choice(
            [
                LatePair(
                    EventPosition("flights.events", 0, at),
                    BY,
                    ("EWR", "JFK", HOSTILE)[at % 3],
                    NOW_MS - 2 * hour,
                    NOW_MS - hour,
                    NOW_MS - 2 * hour + at,
                    NOW_MS - hour + at * 50_000,
                )
                for at in range(90)
            ],
            [],
        )


def _claim(generation: Generation, at_ms: int, **changes: Any) -> Claim:
    told: dict[str, Any] = {"job": JOB, "generation": generation, "parent": b"", "partitions": 12}
    return Claim(**told | {"rewinds_to": 0, "reason": "", "at_ms": at_ms} | changes)


@dataclass
class ConstructedView:
    """The rehydrator of a job. `away`: it does not answer."""

    newest: int = 400
    shards: int = 1024
    away: bool = False
    empty: bool = False
    asked: list[str] = field(default_factory=list)

    def sequence(self) -> int:
        return 0 if self.away or self.empty else self.newest

    def census(self) -> dict[str, Any]:
        self._ask()
        if self.empty:
            raise UnavailableError("no census was taken yet")
        sizes = [{"shard": one, "rows": 3, "bytes": 1_000 + one * 37 % 4_000} for one in range(self.shards)]
        return {
            "counted": iso(NOW_MS - 30_000),
            "rows": 3 * self.shards,
            "bytes": sum(int(one["bytes"]) for one in sizes),
            "shards": sizes,
            "largest_keys": [{"key": HOSTILE, "bytes": 90_000}, {"key": "JFK", "bytes": 40_000}],
            "largest_keys_error_bytes": 12,
        }

    def top(self, measure: str, limit: int) -> dict[str, Any]:
        self._ask()
        rows = [
            {"key": key, "window_start": f"2026-01-01T{hour:02}:00:00Z", "window_end": "", measure: 30 - hour}
            for key in ("EWR", "JFK", HOSTILE)
            for hour in range(8)
        ]
        return {"milestones": [self._milestone()], "rows": [] if self.empty else rows}

    def windows(self, key: str, start: str | None, end: str | None, limit: int) -> dict[str, Any]:
        self._ask()
        self.asked.append(key)
        if key == "too long":
            raise UsageError("the key is too long for a URL, and for an event")
        found = windows_of(key, self.newest)
        return {**found, "rows": []} if self.empty else found

    def snapshot(self) -> str:
        self._ask()
        return f"{GENERATION}:{self.newest}"

    def close(self) -> None: ...

    def _milestone(self) -> dict[str, Any]:
        return milestone_json(self.newest)

    def _ask(self) -> None:
        if self.away:
            raise UnavailableError("the rehydrator does not answer; see its log")


@dataclass
class ConstructedOperator:
    """What actions ask of a job, and the records that they leave. `deaf`: no record is acknowledged.

    `lost`: no outcome is.
    """

    asked: list[tuple[Any, ...]] = field(default_factory=list)
    written: list[AuditRecord] = field(default_factory=list)
    deaf: bool = False
    lost: bool = False
    error: str = ""

    def promote(self, generation: Generation) -> None:
        self._do("promote", generation)

    def hold(self, generation: Generation, for_ms: int, by: str, reason: str) -> Hold:
        self._do("hold", generation, for_ms, by, reason)
        return make_hold(JOB, generation, for_ms, by, reason, NOW_MS)

    def release(self, generation: Generation, by: str, reason: str) -> bool:
        self._do("release", generation, by, reason)
        return generation == HELD

    def drop(self, generation: Generation, reason: str) -> None:
        self._do("drop", generation, reason)

    def steer(self, origin: str, paused: bool) -> None:
        self._do("steer", origin, paused)

    def write(self, record: AuditRecord) -> None:
        if self.deaf or (self.lost and record.outcome != BEGUN):
            raise UnavailableError(AWAY)
        self.written.append(record)

    def _do(self, *what: Any) -> None:
        if self.error:
            raise UsageError(self.error)
        self.asked.append(what)


def milestone_json(sequence: int) -> dict[str, Any]:
    return {"token": f"{GENERATION}:{sequence}", "age_ms": 350, "watermark": "2026-01-01T00:00:00Z"}


def windows_of(key: str, sequence: int) -> dict[str, Any]:
    """The windows of a key at a milestone: one measure is one higher at every second milestone."""
    rows = [
        {
            "key": key,
            "window_start": f"2026-01-{1 + at // 24:02}T{at % 24:02}:00:00Z",
            "window_end": f"2026-01-{1 + (at + 1) // 24:02}T{(at + 1) % 24:02}:00:00Z",
            "movements": 20 + at % 9 + sequence % 2,
            "mean_delay": 12.5 + at % 5,
            "last_carrier": "UA",
        }
        for at in range(48)
    ]
    found = [] if key == "NOPE" else rows
    return {"key": key, "milestone": milestone_json(sequence), "rows": found, "next_from": None}


def alert(kind: str = "silent", part: str = "driver", text: str = HOSTILE) -> Alert:
    return Alert(JOB, GENERATION, kind, part, "watch", NOW_MS - 120_000, None, 40, 7, text)


def place(job: str = JOB, **changes: Any) -> JobPlace:
    """Where a constructed job runs."""
    told: dict[str, Any] = {
        "job": job,
        "job_file": JOB_FILE,
        "generation": str(GENERATION),
        "cluster": Cluster("127.0.0.1:1"),
        "settings": Settings(),
        "api_url": "http://127.0.0.1:1",
        "snapshots": "",
        "ready": True,
        "ended": "",
    }
    return JobPlace(**told | changes)


def follower(
    reader: ConstructedReader | None = None, view: ConstructedView | None = None, tick_s: float = 0.1
) -> JobFollower:
    """The follower of a constructed job."""
    reader = reader or ConstructedReader()
    view = view or ConstructedView(reader.many, reader.shards, reader.away, reader.empty)
    return JobFollower(reader, view, Limits(), lambda: NOW_MS + 2_000, tick_s)


@contextmanager
def served(
    made: JobFollower | None = None,
    settings: Settings | None = None,
    running: Sequence[RunningJob] | None = None,
    operator: ConstructedOperator | None = None,
) -> Iterator[Console]:
    """A console with one constructed job, or with those of `running`, on a free port."""
    import threading

    chosen = made or follower()
    jobs = [RunningJob(place())] if running is None else list(running)
    acting = operator or ConstructedOperator()
    console = Console(
        settings or Settings(),
        "127.0.0.1",
        0,
        lambda: jobs,
        lambda _place: chosen,
        lambda: NOW_MS + 2_000,
        lambda _place: acting,
    )
    thread = threading.Thread(target=console.run, daemon=True)
    thread.start()
    try:
        yield console
    finally:
        console.stop()
        thread.join(10)


def new_epoch(after: Milestone) -> list[Read]:
    """The records of one more epoch: its barrier and its milestone."""
    made = replace(
        after, sequence=after.sequence + 1, epoch=after.epoch + 1, committed_ms=after.committed_ms + EVERY_MS
    )
    shared = {name: value for name, value in vars(made).items() if name in Barrier.__dataclass_fields__}
    return [
        Read(topics.barriers(JOB), 10**9, made.written_ms, protocol_records.encode(Barrier(**shared))),
        Read(topics.milestones(JOB), 10**9, made.committed_ms, protocol_records.encode(made)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--milestones", type=int, default=2_000)
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--shards", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--token", default="")
    parser.add_argument("--roles", action="store_true", help="with the tokens of TOKENS")
    for name in ("away", "empty"):
        parser.add_argument(f"--{name}", action="store_true")
    said = parser.parse_args()
    found = {"away": said.away, "empty": said.empty}
    reader = ConstructedReader(said.milestones, said.partitions, said.shards, alerts=[alert()], **found)
    with served(follower(reader), with_roles() if said.roles else Settings(api_token=said.token)) as console:
        print(console.url, flush=True)
        time.sleep(said.seconds)


if __name__ == "__main__":
    main()
