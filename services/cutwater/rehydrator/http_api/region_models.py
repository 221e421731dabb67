"""The answers that a merge of regions needs, and those of the global view, as models for OpenAPI."""

from __future__ import annotations

from pydantic import BaseModel, Field

from cutwater.rehydrator.http_api.models import CountedSet, DifferentValues, OwnersMilestone, Row, Time


class StoredPart(BaseModel):
    """A region's part of a merge; its shape may change with the version."""

    job: str
    fingerprint: str = Field(description="Identifies what a row means: key, time, window, measures.")
    lineage: str | None = Field(description="First generation of the line; null if unknown.")
    sources: list[list[str | list[int]]] = Field(
        description="Sources of the counted events: region, topic and partitions."
    )
    layout_ms: int = Field(description="Views with the same layout store the same rows in the same order.")
    complete_above_ms: int = Field(description="Windows that end at or before it are left out.")
    watermark_ms: int
    milestones: list[OwnersMilestone]


class StoredAnswer(StoredPart):
    """A region's part with its stored rows."""

    rows: list[list[str | int]] = Field(description="Key, window start and end in ms, value in base64.")


class StoredKeyAnswer(StoredAnswer):
    next_from_ms: int | None


class StoredOf(BaseModel):
    """One key's part of an answer for several keys."""

    key: str
    rows: list[list[str | int]]
    next_from_ms: int | None


class StoredKeysAnswer(StoredPart):
    keys: list[StoredOf] = Field(description="The keys that fit.")


class StoredSet(BaseModel):
    """One set's part of an answer for several sets."""

    key: str
    from_: Time | None = Field(alias="from", description="As it was requested.")
    to: Time | None
    rows: list[list[str | int]]


class StoredSetsAnswer(StoredPart):
    sets: list[StoredSet]


class StoredScanAnswer(StoredAnswer):
    next: str | None


class RegionsMilestone(OwnersMilestone):
    """The milestone of one region in an answer, or of one owner there."""

    region: str
    events_of: list[str] = Field(
        description="The regions whose events its rows count; after a failover also the previous region."
    )


class Missing(BaseModel):
    region: str
    reason: str


class GlobalPart(BaseModel):
    milestones: list[RegionsMilestone]
    partial: bool = Field(
        description="True if a region is missing. No row counts its events, unless `events_of` names it."
    )
    missing: list[Missing]
    complete_above: Time = Field(
        description="The highest horizon (or lower bound) of these regions: windows that end at or before it are "
        "left out, because some region no longer has its rows for them."
    )
    watermark: Time = Field(
        description="The lowest watermark: windows that end at or before it are closed in all of these regions."
    )


class GlobalAnswer(GlobalPart):
    rows: list[Row]


class GlobalKeyAnswer(GlobalAnswer):
    key: str
    next_from: Time | None = Field(description="Pass it as `from` to get the next windows; null at the end.")


class GlobalTopAnswer(GlobalPart):
    rows: list[Row] = Field(description="In order.")


class GlobalKey(BaseModel):
    """One key's part of an answer for several keys."""

    key: str
    rows: list[Row]
    next_from: Time | None = Field(description="Request this key from here to get the next windows.")


class GlobalKeysAnswer(GlobalPart):
    keys: list[GlobalKey] = Field(description="In the order of the request, each key once.")
    next_keys: list[str] = Field(description="Keys that did not fit: request them again.")


class GlobalScanAnswer(GlobalAnswer):
    next: str | None = Field(description="Pass it as `after` to get the next page; null at the end.")


class GlobalDistinctAnswer(GlobalPart, DifferentValues):
    sets: list[CountedSet] = Field(description="In the order of the request: of, and, not.")
