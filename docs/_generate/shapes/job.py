"""The JSON of verbs about one job and its stack."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from docs._generate.shapes.state import Milestone
from typing_extensions import TypedDict


class Failure(TypedDict):
    """The last exit of a process of the stack, and how often in a row it was the same. Times in ms since 1970."""

    exit_code: int
    said: str
    times: int
    since_ms: int
    last_ms: int
    apart_ms: int


class Stack(TypedDict):
    pid: int
    started: float
    ready: bool
    job_file: str
    job: str
    generation: str
    bootstrap_servers: str
    api_url: str
    spark_ui_url: str
    data_dir: str
    logs: dict[str, str]
    """By service."""
    security_protocol: str
    watch_url: str
    snapshots: str
    """The store of the view's snapshots; empty if none are taken."""
    program: dict[str, str]
    """Variables for the user's program, if the job is attached."""
    metrics: dict[str, str]
    """Addresses of enabled Prometheus metrics, by service."""
    spark_uis: dict[str, str]
    """Spark UIs of generations started later, by generation id."""
    key_columns: list[str] | None
    """The columns of a key that is a list; null for another key."""
    failures: dict[str, Failure]
    """The last failure by process; a process that never failed is missing."""
    ended: str
    """Empty while the stack runs."""


class StartedStack(Stack):
    console_url: str
    """Of the console that runs with the stack; empty without one."""


class Stacks(TypedDict):
    """Of several jobs."""

    api_url: str
    """The address below which /v1/jobs/{job} is the API of each."""
    jobs: list[Stack]
    console_url: str


class Drift(TypedDict):
    epochs: int
    """Epochs with a barrier and no milestone."""
    events: int
    ms: int
    waiting: int | None
    """Events that no barrier covers yet; null if unknown."""
    unpublished: int


class OpenTransaction(TypedDict):
    """An open transaction in a source partition: records from `offset` on are not read until it ends."""

    topic: str
    partition: int
    offset: int
    records: int
    """Offsets from there on, of all producers."""


class Alert(TypedDict):
    id: str
    state: Literal["raised", "resolved"]
    job: str
    generation: str
    kind: str
    part: str
    told_by: str
    raised: str
    resolved: str | None
    sequence: int
    value: int
    text: str
    first_step: str
    """The command that the runbook begins with."""
    runbook: str


class Status(TypedDict):
    stack: Stack
    milestone: Milestone | None
    view: dict[str, Any]
    """The answer of `GET /v1/milestone` (docs/HTTP.md); only `detail` if the API does not answer."""
    published: str | None
    parts: dict[str, str]
    """Activity by part."""
    drift: Drift
    open_transactions: list[OpenTransaction]
    alerts: list[Alert]
    warnings: list[str]


class Unread(TypedDict):
    """One of several jobs that has ended or is starting."""

    stack: Stack
    error: str


class Statuses(TypedDict):
    """Of several jobs, without --job."""

    api_url: str
    """The address below which /v1/jobs/{job} is the API of each."""
    jobs: list[Status | Unread]


class Console(TypedDict):
    """Printed once the console answers."""

    url: str


class Down(TypedDict):
    stopped: bool
    deleted: bool
    topics: list[str]


class Deletion(TypedDict):
    folder: str | None
    topics: list[str]


class DownPlan(TypedDict):
    """With --dry-run."""

    would_delete: Deletion
    kept: list[str]


class Step(TypedDict):
    name: str
    took_ms: int


class Start(TypedDict):
    begun: str
    begun_ms: int
    job: str
    generation: str
    service: str
    process: str
    attempt: int
    """0 if the service does not count attempts."""
    outcome: str
    """running or stopped."""
    found: dict[str, str]
    decision: str
    steps: list[Step]
    took_ms: int


class AuditedAction(TypedDict):
    id: str
    job: str
    actor: str
    """The name of a token, else user and host."""
    role: str
    """Empty if tokens have no roles."""
    via: str
    """cli, console or watch."""
    process: str
    action: str
    object: str
    arguments: dict[str, str]
    begun: str
    begun_ms: int
    ended: str | None
    """null without an outcome."""
    ended_ms: int | None
    outcome: str
    """begun, done or failed."""
    detail: str
    """What came of it, or the error."""


class CadenceDecision(TypedDict):
    made: str
    made_ms: int
    generation: str
    process: str
    attempt: int
    """Of the driver; 0 for a rehydrator."""
    part: Literal["epochs", "snapshots"]
    sets: dict[str, int]
    """epochs: events_max and interval_ms; snapshots: snapshot_every_ms."""
    before: dict[str, int]
    """The same before; empty for the first decision of a process."""
    reason: str
    figures: dict[str, float]
    """What the decision rests on: rates in events or rows a second, times in seconds, event_us in microseconds."""


class CadenceObjectives(TypedDict):
    readable_p99_ms: int | None
    recovery_ms: int | None


class Cadence(TypedDict):
    job: str
    objectives: CadenceObjectives
    """Of the job file; null if it names none."""
    in_force: list[CadenceDecision]
    """The newest decision on epochs, and of each rehydrator on snapshots."""
    decisions: list[CadenceDecision]
    """Oldest first."""


class Finding(TypedDict):
    check: str
    level: Literal["ok", "skipped", "warning", "error"]
    found: str
    remedy: str


class CalibrationPhase(TypedDict):
    light: int
    heavy: int
    epochs: int
    events: int
    rows: int
    seconds: float
    published: bool
    driver_s: float
    view_s: float
    beside_s: float


class Calibrated(TypedDict):
    path: str
    figures: dict[str, float]
    """The machine's size, and those that differ from the defaults."""
    phases: list[CalibrationPhase]


class PolicyFinding(TypedDict):
    job: str
    check: str
    level: Literal["ok", "error"]
    found: str
    remedy: str
    resource: str | None
    """Null for a rule that is about no resource."""
    keep_ms: int | None
    """The time that it is kept; null for ever."""
    bytes: int | None
    """Of all copies, after a year if it is kept for ever; null without a load in the policy."""
    monthly_cost: float | None
    """Null without a load or without --prices."""


class Findings(TypedDict):
    level: Literal["ok", "skipped", "warning", "error"]
    """The worst level of the findings."""
    findings: list[Finding]


class SizeFigure(TypedDict):
    name: str
    value: float
    unit: str
    why: str
    """The calculation, with its numbers."""


class MonthlyAmount(TypedDict):
    name: str
    value: float
    unit: str
    cost: float
    """0 without a price."""


class Course(TypedDict):
    """Of 20 simulated minutes, the second half at the peak."""

    epochs: int
    p50_s: float
    p99_s: float
    """From an event's arrival to the end of its epoch."""
    backlog_max: float
    """Events."""
    rows_per_s: float
    """Rows that the epochs change at the peak."""
    busy: float
    """The share of the driver's cores that is in use at the peak."""
    keeps_up: bool


class Sizing(TypedDict):
    job: str
    figures: list[SizeFigure]
    month: list[MonthlyAmount]
    """Of 730 hours, at the mean load."""
    currency: str | None
    """Null without a price list."""
    simulation: Course
    warnings: list[str]


class PlannedTopic(TypedDict):
    name: str
    exists: bool
    partitions: int
    replication_factor: int
    config: dict[str, str]


class Acl(TypedDict):
    service: str
    resource: str
    name: str
    operations: list[str]
    prefixed: bool
    pattern: Literal["prefixed", "literal"]


class Mirror(TypedDict):
    region: str
    bootstrap: str | None
    acls: list[Acl]


class Load(TypedDict):
    events_per_s: float
    keys: int
    event_bytes: int
    epoch_s: float
    source_partitions: int


class Measured(TypedDict):
    row_bytes: float
    sampled: int
    rows_per_event: float | None


class RowSizes(TypedDict):
    key: float
    texts: dict[str, float]
    """Mean length of a text, by field of the events."""
    sketches: dict[str, float]
    """Mean size of a distinct sketch, by measure."""


class SampleFigures(TypedDict):
    events: int
    span_ms: int
    event_bytes: float
    events_per_s: float
    keys: int
    whole_windows: int
    rows_per_window: float | None
    """Null if the sample holds no whole window."""
    rows_per_epoch: float | None
    """Null if the sample is smaller than one epoch."""
    state: RowSizes
    written: RowSizes


class Estimate(TypedDict):
    rows_per_s: float
    row_bytes: float
    written_row_bytes: float
    output_row_bytes: float
    changelog_write_bytes_per_s: float
    output_write_bytes_per_s: float
    protocol_write_bytes_per_s: float
    source_read_bytes_per_s: float
    changelog_read_bytes_per_s: float
    live_rows: float
    changelog_disk_bytes: float
    output_disk_bytes: float
    closed_rows_bytes_per_day: float
    protocol_disk_bytes_per_day: float
    view_bytes: float
    state_disk_bytes: float
    """Of Spark's state, in the versions that are kept."""
    local_disk_bytes: float
    network_bytes_per_s: float
    disk_bytes_after_30_days: float


class MeasureCost(TypedDict):
    name: str
    kept: Literal["changelog", "state", "stored", "derived"]
    """`stored`: a derived value that Spark computes and rows have."""
    row_bytes: float
    """In changelog, views, snapshots and seeds; at most, if no sample tells."""
    output_bytes: float
    state_bytes: float
    """In Spark's state."""
    restore: str
    """What a generation from a milestone has of it."""


class Plan(TypedDict):
    job: str
    source: str
    bootstrap_servers: str | None
    topics: list[PlannedTopic]
    warnings: list[str]
    acls: list[Acl]
    mirrors: list[Mirror]
    measures: list[MeasureCost]
    load: Load
    measured: Measured | None
    """Null if the job has not run on this cluster."""
    sampled: SampleFigures | None
    """Null if no event of the source could be read."""
    unknown: list[str]
    """Why figures are only upper bounds; empty if they are accurate to a factor of two."""
    estimate: Estimate
    commands: list[str]
    """Calls of kafka-acls that create the ACLs."""


class Prepared(TypedDict):
    created: list[str]


class DraftedMeasure(TypedDict):
    measure: str
    field: str | None


class RejectedSample(TypedDict):
    reason: str
    rule: str
    field: str | None
    count: int
    example: str | None
    """The first 200 bytes of such a record; null if CUTWATER_SHOW_PAYLOADS is off."""


class Draft(TypedDict):
    job_file: str
    schema_file: str
    job: str
    format: str
    samples: int
    unreadable: int
    left_out: dict[str, str]
    """The reason by field that is left out."""
    rejected: list[RejectedSample] | None
    """Sampled records that the driver would reject with this job file; null if only Spark can tell."""
    key: str | list[str]
    event_time: str
    window_ms: int
    lateness_ms: int
    measures: dict[str, DraftedMeasure]


class Produced(TypedDict):
    topic: str
    delivered: int


class ReplayedRows(TypedDict):
    rows: int
    missing: int
    """Rows that only the replay has."""
    unexpected: int
    """Rows that only the job has. A row that differs is in both."""


class MadeFault(TypedDict):
    fault: str
    process: str
    at_s: float
    for_s: float
    by_s: float
    """How far a clock was moved, or how much a call about a file was delayed; 0 for other faults."""
    processes: int
    """How many processes had it."""
    alert: str | None
    """The first alert behind it: kind and part."""
    alerted_s: float | None
    lag_max_s: float
    recovered_s: float | None
    """From the fault's end; null if the job had not recovered at the end."""
    in_time: bool


class Chaos(TypedDict):
    seconds: float
    produced: int
    caught_up: bool
    rows: ReplayedRows | None
    """Null if they were not compared."""
    faults: list[MadeFault]


class IncidentPart(TypedDict):
    name: str
    bytes: int
    """Not compressed; 0 if the part is missing."""
    left_out_bytes: int
    """Older bytes that were left out."""
    problem: str
    """Why the part is missing; empty if it is there."""


class Incident(TypedDict):
    file: str
    bytes: int
    """Of the file."""
    job: str
    created: str
    complete: bool
    """Whether no part is missing."""
    parts: list[IncidentPart]


class Loaded(TypedDict):
    topic: str
    delivered: int
    plain: int
    late: int
    bad: int
    duplicate: int
    seconds: float
    behind_s: float
    """How far the sending was behind the plan at most."""


class Setting(TypedDict):
    name: str
    value: str | int | bool | None
    source: Literal["default", "environment"]
    secret: bool
    meaning: str


class SchemaProblems(TypedDict):
    files: list[str]
    rule: str
    problems: list[str]


# pydantic reserves the name `schema` in a class body.
class FingerprintedSchema(TypedDict):
    fingerprint: str
    schema: dict[str, Any]


class WriterSchema(TypedDict):
    name: str
    refused: str
    """Why all of its events are rejected; empty if they are not."""
    unfit: list[str]
    """What an event of it must not contain, or it is rejected."""
    schema: dict[str, Any]


class Schemas(TypedDict):
    job: str
    format: str
    event: FingerprintedSchema
    older: list[FingerprintedSchema]
    writers: list[WriterSchema] | None
    """The schemas that events may be written with, newest first; null if the registry does not answer."""
    key: FingerprintedSchema
    state: FingerprintedSchema
    output: FingerprintedSchema


class RegisteredSchema(TypedDict):
    subject: str
    id: int


class RegisteredSchemas(TypedDict):
    registered: list[RegisteredSchema]


class SchemaFile(TypedDict):
    file: str
    written: bool
    """False if it was there already."""


class FetchedSchema(TypedDict):
    subject: str
    version: int
    id: int
    kind: str
    """AVRO or PROTOBUF."""
    files: list[SchemaFile]
    messages: list[str]
    """Of Protobuf, those that source.message may name."""


class DemoStep(TypedDict):
    step: str
    at_s: float
    seconds: NotRequired[float]
    """Missing if the step failed."""


class DemoCheck(TypedDict):
    check: str
    passed: bool
    found: str


class Demonstration(TypedDict):
    right: bool
    seconds: float
    checks: list[DemoCheck]
    facts: dict[str, Any]
    """Findings by name: texts, numbers and objects of them."""
    not_shown: list[str]
    steps: list[DemoStep]
    logs: str
