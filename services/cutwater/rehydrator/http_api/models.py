"""The answers of the routes as models, only for OpenAPI, so that clients can be generated.

Answers are rendered from dicts: models would cost more than reading the rows. A test compares the two.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Time = Annotated[str | int, Field(description="ISO 8601 in UTC; beyond the years 1 to 9999 ms since 1970.")]


class Milestone(BaseModel):
    """The milestone that an answer shows."""

    token: str = Field(description="Pass it as `at_least` to see this milestone or a later one.")
    standby: bool = Field(description="True if a standby answered in place of the owner.")
    sequence: int
    generation: str
    epoch: int
    watermark: Time
    horizon: Time
    lower_bound: Time | None = Field(
        description="Windows that end at or before it were evicted for the job's max_bytes; null if none were."
    )
    committed: Time
    age_ms: int = Field(description="Milliseconds since the job was last known to have nothing newer.")
    origin: str = Field(
        "",
        description="Region whose state a replica shows. `watermark` and `age_ms` are then its safe time.",
    )


class OwnersMilestone(Milestone):
    """The milestone of one owner's part of an answer."""

    partitions: list[int] | None = Field(description="The partitions that this owner holds; null for all.")


class Row(BaseModel):
    """One window of one key, with one more column for each measure."""

    model_config = ConfigDict(extra="allow")
    key: str
    window_start: Time
    window_end: Time


class Selected(BaseModel):
    """The selection that a replica keeps; numbers instead of names if the keys are not to be shown."""

    keys: list[str] | int
    prefixes: list[str] | int
    since_ms: int | None


class Held(BaseModel):
    partitions: list[int] | None
    selection: Selected | None


class Replicas(BaseModel):
    """An answer that a replica may give; it then says which part it holds."""

    holds: Held = Field(
        Held(partitions=None, selection=None), description="The part of the state that a replica holds."
    )


class KeyAnswer(Replicas):
    key: str
    milestone: Milestone
    rows: list[Row]
    next_from: Time | None = Field(description="Pass it as `from` to get the next windows; null at the end.")
    hint: str = Field("", description="Set if windows are missing because they were evicted.")


class ScanAnswer(Replicas):
    milestone: Milestone
    rows: list[Row]
    next: str | None = Field(description="Pass it as `after` to get the next page; null at the end.")


class KeyRows(BaseModel):
    """One key's part of an answer for several keys."""

    key: str
    milestone: int = Field(description="Index in `milestones` of the milestone of these rows, from 0.")
    rows: list[Row]
    next_from: Time | None = Field(description="Request this key from here to get the next windows.")
    hint: str = Field("", description="Set if windows are missing because they were evicted.")


class KeysAnswer(Replicas):
    milestones: list[OwnersMilestone]
    keys: list[KeyRows] = Field(description="In the order of the request, each key once.")
    next_keys: list[str] = Field(description="Keys that did not fit: request them again.")


class TopAnswer(Replicas):
    milestones: list[OwnersMilestone]
    rows: list[Row] = Field(description="In order.")


class CountedSet(BaseModel):
    """One set of an answer: the values of all windows of a key that start in [from, to)."""

    role: Literal["of", "and", "not"] = Field(alias="in", description="The list of the request that it is in.")
    key: str
    from_: Time | None = Field(alias="from", description="As it was requested.")
    to: Time | None
    rows: int
    estimate: int = Field(description="The number of its different values.")


class OwnersSet(CountedSet):
    milestone: int = Field(description="Index in `milestones` of the milestone of its rows, from 0.")
    hint: str = Field("", description="Set if windows are missing because they were evicted.")


class DifferentValues(BaseModel):
    """The number of different values of some sets."""

    measure: str
    estimate: int
    least: int = Field(description="The true number is from `least` to `most` with a probability of 99.7 %.")
    most: int
    exact: bool = Field(description="True if `estimate` is the true number.")


class DistinctAnswer(Replicas, DifferentValues):
    sets: list[OwnersSet] = Field(description="In the order of the request: of, and, not.")
    milestones: list[OwnersMilestone]


class Health(BaseModel):
    status: str
    ready: bool
    reason: str
    role: Literal["owner", "standby", "replica"]
    milestone: Milestone | None
    partitions: list[int] | None = Field(description="The partitions that this rehydrator holds; null for all.")
    selection: Selected | None = Field(description="The selection that a replica keeps; null for all.")


class Counted(BaseModel):
    rows: int
    bytes: int


class SegmentSize(Counted):
    """The windows that end within a time segment."""

    ends_after: Time
    ends_up_to: Time


class ShardSize(Counted):
    shard: int


class KeySize(BaseModel):
    key: str
    bytes: int


class SizesAnswer(Counted):
    counted: Time
    seconds: float = Field(description="Duration of the census, including its pauses.")
    max_bytes: int | None = Field(description="The job's bound; null if it has none.")
    segments: list[SegmentSize]
    shards: list[ShardSize]
    largest_keys: list[KeySize]
    largest_keys_error_bytes: int


class KeyReads(BaseModel):
    key: str = Field(description="A key of more than 200 characters is cut, and has a hash.")
    reads: int


class WindowReads(BaseModel):
    window_start: Time
    reads: int


class ReadsAnswer(BaseModel):
    """The most read first, at most 100 of each."""

    since: Time
    reads: int = Field(description="Of all keys.")
    keys: list[KeyReads]
    keys_error: int
    windows: list[WindowReads]
    windows_error: int


class Taken(BaseModel):
    """The milestone of a snapshot, and the share under which the store will hold it."""

    token: str
    sequence: int
    share: str


class Problem(BaseModel):
    """The reason why there is no answer."""

    detail: str


class Behind(BaseModel):
    error: str
    milestone: Milestone


class NotReached(BaseModel):
    """The token was not reached within the wait, or was lost."""

    detail: Behind


WHY_UNGUARDED = "the API token is missing or wrong"
WHY_FORBIDDEN = "the token's role does not allow it (docs/SECURITY.md)"
WHY = {
    400: "`at_least` or `Last-Event-ID` is not a token; `after` is not a cursor (of `/v1/changes`: not a token), "
    "or is of another division or layout of the rows; or the body cannot be read",
    409: "this rehydrator takes no snapshots (a standby never does, nor a replica of its own region), or has no "
    "global view",
    410: "the token in `at_least` was lost: its generation was never promoted, or a rollback went to an earlier "
    "milestone; the body names the milestone that is shown",
    412: "the view did not reach `at_least` within `wait_ms`; the body names the milestone that it shows",
    413: "the body is too large",
    421: "the peers disagree about which of them holds a partition: compare `CUTWATER_PEERS`; or a replica lacks "
    "this key or every key with this prefix; or another peer, which `detail` names, has the key's changes",
    422: "a parameter is out of bounds, or not a time or a measure; or there are too many rows to rank",
    500: "an internal error; `detail` says which",
    501: "this rehydrator has no pyarrow; `detail` says what to install",
    503: "no milestone can be shown; or no rehydrator with the requested rows answers; or a region is missing; or "
    "too many global queries are running; `detail` says why",
}
WAITING = (400, 410, 412, 422, 500, 503)
"""Errors of a route that waits for a token."""
READING = (*WAITING, 421)
"""Errors of such a route that peers pass on."""
NOT_READY = "no milestone is shown, or the view does not follow; the body says why"


def json_responses(model: Any, *codes: int, success: int = 200) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route: its answer (None: not JSON), and the problems of these codes."""
    problems: dict[int | str, dict[str, Any]] = {
        code: {"model": NotReached if code in (410, 412) else Problem, "description": WHY[code]} for code in codes
    }
    return problems if model is None else {success: {"model": model}, **problems}


def stream_responses(media_type: str, *codes: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route that streams this media type."""
    return {
        200: {"description": "Successful Response", "content": {media_type: {}}},
        **json_responses(None, *codes),
    }
