"""What the routes answer, as models: for OpenAPI alone, so that clients can be generated.

Answers are rendered from dicts; going through a model would cost more than reading the rows. A test holds the two
together.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Time = Annotated[str | int, Field(description="ISO 8601 in UTC; beyond the years 1 to 9999 ms since 1970.")]


class Milestone(BaseModel):
    """The milestone that an answer is of."""

    token: str = Field(description="Pass it as `at_least` to see this milestone or a later one.")
    standby: bool = Field(description="Did a standby answer, in the place of its owner?")
    sequence: int
    generation: str
    epoch: int
    watermark: Time
    horizon: Time
    lower_bound: Time | None = Field(
        description="Windows that end at or before it were evicted for the job's max_bytes; null: none were."
    )
    committed: Time
    age_ms: int = Field(description="How long ago the job was last known to have nothing newer.")
    origin: str = Field(
        "",
        description="Of a replica of another region: which. `watermark` and `age_ms` are its safe time then.",
    )


class OwnersMilestone(Milestone):
    """The milestone of one owner's part of an answer."""

    partitions: list[int] | None = Field(description="Those that this owner holds; null for all.")


class Row(BaseModel):
    """One window of one key, with each measure as a column more."""

    model_config = ConfigDict(extra="allow")
    key: str
    window_start: Time
    window_end: Time


class Selected(BaseModel):
    """What a replica keeps. Numbers where the names of keys are nobody's business."""

    keys: list[str] | int
    prefixes: list[str] | int
    since_ms: int | None


class Held(BaseModel):
    partitions: list[int] | None
    selection: Selected | None


class Replicas(BaseModel):
    """An answer that a replica may give: then it says what it holds."""

    holds: Held = Field(Held(partitions=None, selection=None), description="What of the state a replica holds.")


class KeyAnswer(Replicas):
    key: str
    milestone: Milestone
    rows: list[Row]
    next_from: Time | None = Field(description="Pass it as `from` for the windows that follow; null at the end.")
    hint: str = Field("", description="Where windows are missing because they were evicted.")


class ScanAnswer(Replicas):
    milestone: Milestone
    rows: list[Row]
    next: str | None = Field(description="Pass it as `after` for the page that follows; null at the end.")


class KeyRows(BaseModel):
    """One key's part of an answer for several."""

    key: str
    milestone: int = Field(description="Which of `milestones` these rows are of, from 0.")
    rows: list[Row]
    next_from: Time | None = Field(description="Ask for this key from there for the windows that follow.")
    hint: str = Field("", description="Where windows are missing because they were evicted.")


class KeysAnswer(Replicas):
    milestones: list[OwnersMilestone]
    keys: list[KeyRows] = Field(description="In the order in which they were asked for, each once.")
    next_keys: list[str] = Field(description="Keys that there was no room for: ask for them again.")


class TopAnswer(Replicas):
    milestones: list[OwnersMilestone]
    rows: list[Row] = Field(description="In order.")


class StoredPart(BaseModel):
    """A region's part of a merge; its shape may change with the version."""

    job: str
    fingerprint: str = Field(description="Of what a row means: key, time, window, measures.")
    lineage: str | None = Field(description="Its first generation; null: not known.")
    sources: list[list[str | list[int]]] = Field(
        description="Whose events are counted: region, topic and partitions there."
    )
    layout_ms: int = Field(description="Views of one layout have the same rows in the same order.")
    complete_above_ms: int = Field(description="Windows that end at or before it are not here.")
    watermark_ms: int
    milestones: list[OwnersMilestone]


class StoredAnswer(StoredPart):
    """Its rows as they are stored."""

    rows: list[list[str | int]] = Field(description="Key, window start and end in ms, value in base64.")


class StoredKeyAnswer(StoredAnswer):
    next_from_ms: int | None


class StoredOf(BaseModel):
    """One key's part of an answer for several."""

    key: str
    rows: list[list[str | int]]
    next_from_ms: int | None


class StoredKeysAnswer(StoredPart):
    keys: list[StoredOf] = Field(description="Those that there was room for.")


class StoredScanAnswer(StoredAnswer):
    next: str | None


class RegionsMilestone(OwnersMilestone):
    """The milestone of a region's part of an answer, or of one owner's there."""

    region: str
    events_of: list[str] = Field(
        description="The regions whose events its rows count: after a failover the region that was left, too."
    )


class Missing(BaseModel):
    region: str
    reason: str


class GlobalPart(BaseModel):
    milestones: list[RegionsMilestone]
    partial: bool = Field(
        description="Is a region missing? Its events are then in no row, but where `events_of` names it."
    )
    missing: list[Missing]
    complete_above: Time = Field(
        description="The highest horizon (or lower bound) of these regions: windows that end at or before it are "
        "left out, since some region has forgotten its rows of them."
    )
    watermark: Time = Field(description="The lowest: windows that end at or before it are closed in all of these.")


class GlobalAnswer(GlobalPart):
    rows: list[Row]


class GlobalKeyAnswer(GlobalAnswer):
    key: str
    next_from: Time | None = Field(description="Pass it as `from` for the windows that follow; null at the end.")


class GlobalTopAnswer(GlobalPart):
    rows: list[Row] = Field(description="In order.")


class GlobalKey(BaseModel):
    """One key's part of an answer for several."""

    key: str
    rows: list[Row]
    next_from: Time | None = Field(description="Ask for this key from there for the windows that follow.")


class GlobalKeysAnswer(GlobalPart):
    keys: list[GlobalKey] = Field(description="In the order in which they were asked for, each once.")
    next_keys: list[str] = Field(description="Keys that there was no room for: ask for them again.")


class GlobalScanAnswer(GlobalAnswer):
    next: str | None = Field(description="Pass it as `after` for the page that follows; null at the end.")


class Health(BaseModel):
    status: str
    ready: bool
    reason: str
    role: Literal["owner", "standby", "replica"]
    milestone: Milestone | None
    partitions: list[int] | None = Field(description="Those that this rehydrator holds; null for all.")
    selection: Selected | None = Field(description="What a replica keeps of them; null for all.")


class Counted(BaseModel):
    rows: int
    bytes: int


class SegmentSize(Counted):
    """Of the windows that end within a segment of time."""

    ends_after: Time
    ends_up_to: Time


class ShardSize(Counted):
    shard: int


class KeySize(BaseModel):
    key: str
    bytes: int


class SizesAnswer(Counted):
    counted: Time
    seconds: float = Field(description="How long the census took, its rests included.")
    max_bytes: int | None = Field(description="The job's bound; null: there is none.")
    segments: list[SegmentSize]
    shards: list[ShardSize]
    largest_keys: list[KeySize]
    largest_keys_error_bytes: int


class Taken(BaseModel):
    """The milestone that a snapshot is of, and the name under which it will lie in the store."""

    token: str
    sequence: int
    share: str


class Problem(BaseModel):
    """Why there is no answer."""

    detail: str


class Behind(BaseModel):
    error: str
    milestone: Milestone


class NotReached(BaseModel):
    """The token was not reached within the wait, or was lost."""

    detail: Behind


WHY_UNGUARDED = "the API token is missing or wrong"
WHY = {
    400: "`at_least` or `Last-Event-ID` is no token; `after` is no cursor (of `/v1/changes`: no token), or one of "
    "another division or layout of the rows; or the body cannot be read",
    409: "this rehydrator takes no snapshots; a standby never does, nor a replica of its own region; or it has no "
    "global view",
    410: "the token in `at_least` was lost: its generation was never promoted, or a rollback went back behind it; "
    "the body names the milestone that is shown",
    412: "the view did not reach `at_least` within `wait_ms`; the body names the milestone that it shows",
    413: "the body is too large",
    421: "the peers differ in who holds which partition: compare `CUTWATER_PEERS`; or a replica lacks this key, "
    "or any with this prefix; or another peer, which is named, has its changes",
    422: "a parameter is out of its bounds, no time or no measure; or there are too many rows to rank",
    500: "an error of Cutwater's own; `detail` says which",
    501: "this rehydrator has no pyarrow; `detail` says what to install",
    503: "no milestone can be shown now, or nobody who holds what was asked for answers, or not every region, or "
    "too much of the global view is under way; `detail` says why",
}
WAITING = (400, 410, 412, 422, 500, 503)
"""What a route that waits for a token may say besides its answer."""
READING = (*WAITING, 421)
"""And one that peers pass on."""
NOT_READY = "no milestone is shown, or it is not followed; the body says why"


def told(model: Any, *codes: int, success: int = 200) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route: its answer (None: not JSON), and the problems of these codes."""
    problems: dict[int | str, dict[str, Any]] = {
        code: {"model": NotReached if code in (410, 412) else Problem, "description": WHY[code]} for code in codes
    }
    return problems if model is None else {success: {"model": model}, **problems}


def streamed(media_type: str, *codes: int) -> dict[int | str, dict[str, Any]]:
    """The same of a route whose answer is a stream of this type."""
    return {200: {"description": "Successful Response", "content": {media_type: {}}}, **told(None, *codes)}
