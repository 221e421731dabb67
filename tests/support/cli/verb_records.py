"""Records as verbs find them, with text that no terminal should obey wherever text comes from outside."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.config.settings import Settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.topics.mirror_topics import Positions
from cutwater.adapters.topics.spread_plan import SpreadState
from cutwater.cli.generations.canary_report import NamedCanary
from cutwater.client.export.parquet import Written
from cutwater.client.values import Change, CommittedMilestone
from cutwater.core.access.audit_log import Argument, AuditRecord
from cutwater.core.cadence.decisions import EPOCHS, SNAPSHOTS
from cutwater.core.cadence.decisions import Decision as Cadence
from cutwater.core.checks.findings import error, ok
from cutwater.core.checks.state_comparison import Answer, RowDifference, RowName, RowTotals, Verdict
from cutwater.core.driver.rejected_events import EventPosition, LatePair, Letter, Listed
from cutwater.core.failover.exact_loss import ExactLoss, Late, Later, PartitionLoss
from cutwater.core.failover.forks import Fork, Line
from cutwater.core.generations.candidates import Candidate
from cutwater.core.generations.late_replay import Opening
from cutwater.core.mirror.replica_lag import SafeTime
from cutwater.core.monitoring.alerts import Alert
from cutwater.core.output.lineage import Reach, contained
from cutwater.core.output.position import End
from cutwater.core.pacing.maintenance_windows import MaintenanceWindows
from cutwater.core.pacing.schedules import WorkBounds
from cutwater.core.past.replay_range import SourceRange
from cutwater.core.past.replay_reasons import Reason, ReplaySummary
from cutwater.core.past.row_history import EventKind, Gap, RowEvent, Unknown
from cutwater.core.past.state_difference import MeasureChange, RowChange, RowKind, SharedMeasures, summary_of
from cutwater.core.past.wrong_since import WrongSince
from cutwater.core.protocol.chain import link
from cutwater.core.protocol.changelog_rows import Writer
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Token
from cutwater.core.protocol.mirror_records import Arrival, Steering
from cutwater.core.protocol.records import (
    Canary,
    Claim,
    Comparison,
    Decision,
    DifferingRow,
    FileText,
    Hold,
    Redefinition,
    Release,
)
from cutwater.core.protocol.recovery_log import Fact, Recovery, Took
from cutwater.core.skew.load import KeyLoad, ShardLoad
from cutwater.core.skew.ownership import Counted, moved
from cutwater.core.skew.spread_plan import Adoption, Spread, SpreadKey
from cutwater.core.state.backlog import Entry
from cutwater.core.state.bulk_load import Slice
from cutwater.core.state.point_in_time_restore import RestorableSnapshot, RestorePlan
from cutwater.core.state.selection import Selection
from cutwater.core.state.snapshot_manifest import File, Manifest, Names
from cutwater.local.running_file import RunningStack
from cutwater.operations.generations.late_replay import LateReplayPlan
from cutwater.operations.generations.prune import Earlier
from cutwater.operations.generations.seed_source import SeedSource
from cutwater.operations.lineage import Lineage
from cutwater.operations.regions.failover import OriginCopies
from cutwater.operations.stream_retention import Cut as Cutting
from cutwater.past.blame import Blame, GapReason
from cutwater.past.diff import Side, StateDifference
from cutwater.past.visible_milestones import VisibleMilestone
from cutwater.replay.comparison import Compared
from cutwater.replay.excluded_events import ExcludedEvents
from cutwater.replay.files import WrittenFile
from cutwater.replay.run import ReplayResult
from cutwater.replay.source_copy import Copied
from cutwater.verify.regions import ComparisonResult, Shard
from cutwater.verify.run import Result
from cutwater.views.snapshots.object_store_tier import Pruned
from support.protocol_samples import GENERATION, OTHER, milestone

HOSTILE = "[/foo] \x1b[2J\x9b2J\u202eJFK"
"""A key, topic or error text as somebody else may write it."""
JOB_FILE = Path(__file__).parents[3] / "deploy/jobs/flights.yaml"
JOB = load_job(JOB_FILE)
AT_MS = 1_767_225_600_000
FIRST = milestone(0, events=1_234_567, committed_ms=AT_MS, origin_cut=Cut.of_topic("flights.events", [5]))
NEWEST = milestone(1, FIRST, committed_ms=AT_MS + 500, parent_hash=link(protocol_records.encode(FIRST)))
STREAM = [(one, protocol_records.encode(one)) for one in (FIRST, NEWEST)]
STACK = RunningStack(
    **{"pid": 1, "started": 1.5, "ready": True, "job_file": str(JOB_FILE), "job": "flights"},
    **{"generation": str(GENERATION), "bootstrap_servers": "127.0.0.1:9092", "api_url": "http://127.0.0.1:1"},
    **{"spark_ui_url": "", "data_dir": "/nowhere", "logs": {"driver": f"/nowhere/{HOSTILE}"}},
)  # type: ignore[arg-type]
ENDED = replace(STACK, job="orders", ready=False, ended=f"2026-01-01T00:00:00Z: {HOSTILE}")
SETTINGS = Settings(region="eu")
PLACE: Any = SimpleNamespace(job=JOB, job_file=JOB_FILE, cluster=None, settings=SETTINGS, stack=STACK)
READER: Any = SimpleNamespace(job=replace(JOB, upstream=HOSTILE), cluster=None)
_ENDS = [End("up", GENERATION, one, one, 0, True, 2, AT_MS, AT_MS, AT_MS) for one in (7, 8)]
LINEAGE = Lineage(NEWEST, contained([Reach(_ENDS[0], _ENDS[1])]), {0: Reach(_ENDS[0], _ENDS[1]), 1: Reach(None)})
CLAIM = Claim(
    **{"job": "flights", "generation": OTHER, "parent": STREAM[0][1], "partitions": 4, "rewinds_to": 0},
    **{"reason": HOSTILE, "at_ms": AT_MS, "origin": "us", "origin_cut": Cut.of_topic("flights.events", [5])},
)  # type: ignore[arg-type]
BOUNDS = WorkBounds(MaintenanceWindows.parse(["02:00-05:00"], "Europe/Berlin"), 5_000)
HOLD = Hold("flights", OTHER, AT_MS + 3_600_000, HOSTILE, HOSTILE, AT_MS)
CANDIDATES = [Candidate(CLAIM, hold=HOLD), Candidate(CLAIM, NEWEST, withdrawn=f"given up: {HOSTILE}")]
CANARY = NamedCanary(
    Candidate(
        replace(CLAIM, origin="", origin_cut=Cut(), source_cut=Cut()),
        NEWEST,
        comparison=Comparison(
            **{
                "job": "flights",
                "generation": OTHER,
                "epoch": 17,
                "number": 18,
                "sequence": 57,
                "compared": 1_500,
            },
            **{"unpaired": 1, "passed": 2, "rows": 4_711, "differing": 1_234, "late": 3, "late_until_ms": AT_MS},
            **{"verdict": "drop", "reason": HOSTILE, "at_ms": AT_MS},
            first=(DifferingRow(HOSTILE, 0, 60_000, HOSTILE), DifferingRow("JFK", 0, 60_000, "ticks 2 → 1")),
        ),  # type: ignore[arg-type]
    ),
    Canary("flights", OTHER, 1_000, 0, 1e-9, 3_600_000, AT_MS),
    replace(NEWEST, generation=OTHER),
    Candidate(replace(CLAIM, origin="", origin_cut=Cut(), source_cut=Cut(), rewinds_to=1), NEWEST),
)
REDEFINITION = Redefinition("flights", OTHER, "ab", (FileText("job.yaml", HOSTILE),), AT_MS, AT_MS)
SEED = SeedSource("compaction has overtaken it", f"s3://{HOSTILE}", ("g1-local-00000000:1",))
BY = Listed(GENERATION, 2, 7)
LETTERS = [
    Letter(
        EventPosition(HOSTILE, 0, 5), BY, "undecodable", HOSTILE.encode() + b"\xff", 1_234, AT_MS, None, (0, 0)
    ),
    Letter(
        EventPosition("flights.events", 1, 1_000_000),
        BY,
        "no key",
        None,
        None,
        10**18,
        EventPosition("t", 0, 90),
        (0, 1),
    ),
]
LATE = [LatePair(EventPosition("flights.events", 1, 5), BY, HOSTILE, 0, 60_000, 30_000, 90_000)]
LATE_REPLAY = LateReplayPlan(FIRST, Opening(90_000, NEWEST.source_cut, Cut()), 2, 1, [HOSTILE], [HOSTILE])
ROWS = [
    {
        **{"key": HOSTILE, "window_start": "2026-01-01T00:00:00Z", "window_end": "2026-01-01T01:00:00Z"},
        **{f"measure_{number}": 1_263_109.430000007 * number for number in range(12)},
        **{"[/text]": HOSTILE, "none": None, "decimal": "12.30"},
    }
]
SHOWN = {
    **{"token": "g1-local-00000000:2", "standby": False, "sequence": 2, "generation": "g1-local-00000000"},
    **{"epoch": 1, "watermark": "2026-01-01T00:00:00Z", "horizon": "1970-01-01T00:00:00Z"},
    **{"lower_bound": None, "committed": "2026-01-01T00:00:00Z", "age_ms": 350},
}
_SET = {"in": "of", "key": HOSTILE, "from": None, "to": None, "milestone": 0, "rows": 1_000, "estimate": 98_765}
DISTINCT = {
    **{"measure": "ticks", "estimate": 12_345, "least": 11_999, "most": 12_765, "exact": False},
    "sets": [_SET, {**_SET, "in": "and", "key": "東京", "to": "2026-01-01T00:00:00Z", "hint": HOSTILE}],
    "milestones": [{**SHOWN, "partitions": None}],
}
CHANGES = CommittedMilestone(
    Token(GENERATION, 2),
    1,
    0,
    AT_MS,
    (
        Change(HOSTILE, 0, 60_000, "update", {"ticks": 35, "mean": 1_263_109.430000007, "[/text]": HOSTILE}),
        Change("東京", 0, 60_000, "tombstone", {"ticks": None, "mean": float("nan"), "[/text]": None}),
    ),
)
STARTS = [
    Recovery(
        **{"job": "flights", "generation": GENERATION, "service": service, "process": f"host:{HOSTILE}"},
        **{"attempt": 3, "begun_ms": AT_MS, "outcome": "running", "decision": f"goes on behind {HOSTILE} " * 3},
        **{"found": (Fact("planned", "-1"), Fact("topic", HOSTILE), Fact("cut", "flights.events/0 at 5"))},
        **{"steps": tuple(Took(f"waiting for step {number}", 997 * number) for number in range(9))},
    )  # type: ignore[arg-type]
    for service in ("driver", "commit-signal")
]
AUDIT = [
    AuditRecord(
        **{"id": f"{number:032x}", "job": "flights", "actor": f"host:{HOSTILE}", "role": role, "via": "cli"},
        **{"process": "ubuntu@node-1:4711", "action": "generation promote", "object": str(OTHER)},
        **{"arguments": (Argument("reason", HOSTILE),), "begun_ms": AT_MS + number, "written_ms": AT_MS + 900},
        **{"outcome": outcome, "detail": HOSTILE},
    )  # type: ignore[arg-type]
    for number, (role, outcome) in enumerate([("owner", "done"), ("", "begun"), ("owner", "failed")])
]
DECIDED = [
    Recovery(
        **{"job": "flights", "generation": GENERATION, "service": "cadence", "process": f"host:{HOSTILE}"},
        **{"attempt": 3, "begun_ms": AT_MS, "outcome": "running", "decision": f"events wait {HOSTILE}"},
        **{"found": tuple(Fact(*one) for one in decision.facts().items()), "steps": ()},
    )  # type: ignore[arg-type]
    for decision in (
        Cadence(EPOCHS, {"events_max": 181_019, "interval_ms": 700}, ""),
        Cadence(
            EPOCHS,
            {"events_max": 1_000_000, "interval_ms": 1_050},
            "",
            {"events_max": 181_019, "interval_ms": 700},
            {"waiting": 812_345, "event_us": 4.9871234},
        ),
        Cadence(SNAPSHOTS, {"snapshot_every_ms": 600_000}, ""),
    )
]
FINDINGS = [ok("brokers", "3 brokers"), error("source", f"topic {HOSTILE} is missing " * 3, "create it")]
MANIFEST = Manifest(
    "flights", GENERATION, frozenset({0, 2}), 2, b"", 0, 3_600_000, "", (File("a", 1_234_567, "", "a"),), AT_MS
)
NAMES = Names("flights", f"g1-local-{HOSTILE}", "all")
PRUNED = Pruned([1, 2], 3, 4_096, 1, (f"2: {HOSTILE}",))
SAFE = [
    (SafeTime("us", "g1-us-00000000:42", AT_MS, 1_234, 2, 0, 12_345_678, 987_654_321, 350, 5_000.0, 12.5), None),
    (
        SafeTime(HOSTILE, None, None, None, None, None, None, None, 0, 0.0, None),
        Steering("flights", "us", True, AT_MS),
    ),
]
LINE = Line(Token(GENERATION, 3), Token(GENERATION, 9), 7, 1_234_567, AT_MS, AT_MS, Cut())
DECISION = Decision("flights", OTHER, str(OTHER), HOSTILE, AT_MS)
FORKS = [
    Fork(CLAIM, FIRST, True, [LINE], True, 12, DECISION),
    Fork(CLAIM, FIRST, False, None, False, None, None),
]
LOSS = ExactLoss(
    [PartitionLoss(TopicPartition(HOSTILE, 0), 5, 900, 800, 1, 2, 3, Later(9, 1, 9, 4), 1)],
    Late(3, 2),
    (HOSTILE,),
    AT_MS,
)
SUM, OTHER_SUM = RowTotals(1_234, 0xABC), RowTotals(1_235, 0xDEF)
DIFFERENCE = RowDifference(
    3, RowName(HOSTILE, 0, 60_000), {"changelog": f'{{"ticks": "{HOSTILE}"}}', "view": None}, ("view",)
)
RESULT = Result(
    NEWEST,
    [
        Answer("changelog", Verdict.EQUAL, SUM, SUM),
        Answer("view", Verdict.DIFFERENT, OTHER_SUM, SUM, 1, HOSTILE),
        Answer("output", Verdict.UNKNOWN, reason=f"it does not answer: {HOSTILE}"),
    ],
    [DIFFERENCE],
    5,
)
COMPARED = ComparisonResult(NEWEST, (SUM, OTHER_SUM), [Shard(3, (SUM, OTHER_SUM))], [DIFFERENCE], 5, 10**9)
EARLIER = [
    Earlier(GENERATION, None, f"flights.changelog.{GENERATION}", Path("/nowhere") / HOSTILE),
    Earlier(OTHER, f"the output has not gone on from it: {HOSTILE}", None, None),
]
CUTS = [
    Cutting("flights.milestones", 12, 1_234_567, f"milestone 5 stays: {HOSTILE}"),
    Cutting("flights.barriers", 12, 0, "the job rests"),
]
WRITTEN = [
    Written(Path(HOSTILE), Token(GENERATION, 2), frozenset({0, 2}), 1_234_567, 10**9, None, True, (HOSTILE,)),
    Written(Path("b"), Token(GENERATION, 1), None, 0, 9, Selection.of([HOSTILE], [], None), True, ()),
]
SNAPSHOT = RestorableSnapshot(FIRST, 12, 10**8, 0)
RESTORING = RestorePlan(
    Entry(NEWEST, STREAM[1][1], 2), None, SNAPSHOT, (Slice(0, 5, 1_234_567), Slice(2, 0, 9)), True, SNAPSHOT
)
ARRIVAL = Arrival(
    "flights", "us", GENERATION, 1, b"\0" * 32, 0, FIRST.source_cut, FIRST.changelog_cut, 0, AT_MS, AT_MS
)
RELEASE = Release("flights", GENERATION, 1, "eu", AT_MS)
FOUND = OriginCopies(ARRIVAL, STREAM[0][1], FIRST, NEWEST, AT_MS, [], None, "eu")
WRITER = Writer(GENERATION, 2, 7)
VISIBLE = VisibleMilestone(
    *(2, GENERATION, 2, 7, AT_MS, 0, 0, 2, 9), ((TopicPartition(f"flights.{HOSTILE}", 0), 1_234_567),)
)
BLAMED = Blame(
    {2: VISIBLE},
    VISIBLE,
    (
        RowEvent(
            2, EventKind.CHANGED, None, {HOSTILE: HOSTILE, "n": 1}, False, "output", "flights.output/0@7", None, 1
        ),
        RowEvent(
            2, EventKind.CHANGED, {"n": 1, "x": None}, {"n": 2}, True, "changelog", HOSTILE, WRITER, undone=True
        ),
        RowEvent(2, EventKind.EXPIRED, {"n": 2}, None, True, "horizon"),
    ),
    {2: Cut()},
    (GapReason(Gap(1, 2), (HOSTILE, "compaction")),),
    WrongSince(2, None, (Unknown(1, 1),)),
    3,
)
_ROW = RowName(HOSTILE, 0, 60_000)
COMPARED_MILESTONES = StateDifference(
    Side(NEWEST, 1_234_567),
    Side(FIRST, 12),
    AT_MS,
    SharedMeasures(("n", "mean"), (HOSTILE,), ("x",)),
    summary_of(
        [
            RowChange(_ROW, RowKind.ADDED, (MeasureChange("n", None, HOSTILE),)),
            RowChange(_ROW, RowKind.REMOVED, (MeasureChange("n", float("nan"), None),)),
            RowChange(_ROW, RowKind.CHANGED, (MeasureChange("n", 1, Decimal("2.50")),), ("mean",)),
        ],
        2,
    ),
)
REPLAYED = ReplayResult(
    FIRST,
    NEWEST,
    (SourceRange(0, 5, 1_234_567),),
    ExcludedEvents({}, late=1_234, late_counted=2, jumps=3, notes=[HOSTILE]),
    Copied({0: 1_233_328}, 10**9),
    4,
    Compared(
        SharedMeasures(("n", "mean"), (HOSTILE,), ("x",)),
        (HOSTILE,),
        AT_MS,
        ReplaySummary(
            COMPARED_MILESTONES.summary,
            Counter({Reason.LATE: 1, Reason.JOB_FILE: 1, Reason.UNKNOWN: 1}),
            [Reason.LATE, Reason.UNKNOWN],
            Counter({HOSTILE: 5}),
        ),
        live_rows=12,
        expected_rows=1_234_567,
    ),
    [WrittenFile(Path(HOSTILE), 12)],
)
ALERT = Alert("flights", GENERATION, "silent", "driver", "watch", AT_MS, None, 2, 5, f"no word of {HOSTILE}")


def positions(one: Any) -> Positions:
    """One partition that is copied from `us`, and the mirror paused."""
    made = Positions()
    made.copies["us"] = {TopicPartition(one.topic, one.partition): one}
    made.steering["us"] = Steering("flights", "us", True, AT_MS)
    return made


MOVED = moved(1024, 4, 6, Counted((2,) * 1024, (1_205,) * 1024, whole=True))
SPREAD = Spread("flights", 3, 4, (SpreadKey(HOSTILE, (0, 1, 3), 2),), HOSTILE, HOSTILE, AT_MS)
ADOPTED = SpreadState(SPREAD, (Adoption("flights", HOSTILE, 2, AT_MS), Adoption("flights", "b", 3, AT_MS)))


def _load() -> ShardLoad:
    cells = tuple(tuple((shard * (at + 1)) % 97 for shard in range(1024)) for at in range(200))
    return ShardLoad(
        milestones=(NEWEST,) * 200,
        source={0: 1_234_567, 1: 500, 2: 500, 3: 500},
        rows_by_partition=(5_000, 1, 2, 3),
        cells=cells,
        shard_rows=(1_000,) * 10 + (1,) * 1014,
        keys=(KeyLoad(HOSTILE, 1_000_000, 12), KeyLoad("東京@/", 5, 1)),
        keys_error=12,
        rows_error=3,
        measured=True,
        overcount=1_234,
        warm_up=200,
        rows_read=1_234_567,
    )


LOAD = _load()
