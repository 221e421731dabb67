"""The form of stored rows in JSON, and the facts that the merge of several owners' or regions' rows needs."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from cutwater.core.errors import UnavailableError
from cutwater.core.protocol.records import Milestone
from cutwater.core.query.event_overlap import Source, counted_sources
from cutwater.core.query.global_merge import root_of
from cutwater.rehydrator.http_api.context import RouteContext
from cutwater.rehydrator.routes.owners import Answer
from cutwater.views.query.pages import Stored
from cutwater.views.store.key_layout import Window, storage_key

MARK_BYTES = 8


def about(context: RouteContext, milestone: Milestone) -> Answer:
    """Return the facts that a merge needs about a region's part at a milestone."""
    view = context.view
    root = root_of(milestone.generation, view.lineage)
    return {
        "job": view.job.name,
        "fingerprint": view.job.fingerprint,
        "lineage": None if root is None else str(root),
        "sources": _grouped(counted_sources(milestone, view.job.source)),
        "layout_ms": view.segment_ms,
        "complete_above_ms": view.complete_above_ms(milestone),
        "watermark_ms": milestone.watermark_ms,
        "milestones": [context.owners(milestone)],
    }


def join_pages(parts: list[Answer], limit: int) -> Answer:
    """Join the answers of owners, which hold different keys, up to the first position where one of them ends."""
    layout = parts[0]["layout_ms"]
    if any(one["layout_ms"] != layout for one in parts):
        raise UnavailableError("the views of this region's owners store their rows in different orders")
    told = min((one["next"] for one in parts if one["next"] is not None), key=place_in, default=None)
    end = None if told is None else place_in(told)
    rows = sorted((storage_key(Window(*row[:3]), layout), row) for one in parts for row in one["rows"])
    kept = [(place, row) for place, row in rows if end is None or place <= end]
    if len(kept) > limit:
        kept = kept[:limit]
        told = cursor_at(kept[-1][0], layout)
    return {**of_owners(parts), "rows": [row for _, row in kept], "next": told}


def of_owners(parts: list[Answer]) -> Answer:
    """Return the facts that a merge needs about the region, from its owners' parts."""
    lineages = {one["lineage"] for one in parts}
    return {
        **parts[0],
        "lineage": lineages.pop() if len(lineages) == 1 else None,
        "sources": _grouped(source for one in parts for source in sources_in(one)),
        "complete_above_ms": max(one["complete_above_ms"] for one in parts),
        "watermark_ms": min(one["watermark_ms"] for one in parts),
        "milestones": [milestone for one in parts for milestone in one["milestones"]],
    }


def cursor_at(place: bytes, layout_ms: int) -> str:
    """Return the cursor after a storage key, for views of this layout."""
    return base64.urlsafe_b64encode(layout_ms.to_bytes(MARK_BYTES, "big") + place).decode()


def place_in(cursor: str) -> bytes:
    """Return the storage key of a cursor. Raises ValueError or TypeError for an invalid one."""
    place = base64.b64decode(cursor, altchars=b"-_", validate=True)[MARK_BYTES:]
    if not place:
        raise ValueError("a cursor without a storage key")
    return place


def unpacked(row: list[Any]) -> Stored:
    """Return a row of such an answer. Raises ValueError, TypeError or LookupError for an invalid one."""
    key, start_ms, end_ms, value = row
    return Window(str(key), int(start_ms), int(end_ms)), base64.b64decode(value)


def sources_in(answer: Answer) -> frozenset[Source]:
    """Return the sources that such an answer's state counts. Raises as `unpacked`."""
    return frozenset(
        Source(str(region), str(topic), int(number))
        for region, topic, numbers in answer["sources"]
        for number in numbers
    )


def _grouped(sources: Iterable[Source]) -> list[list[Any]]:
    of: dict[tuple[str, str], list[int]] = {}
    for region, topic, partition in sorted(set(sources)):
        of.setdefault((region, topic), []).append(partition)
    return [[*name, numbers] for name, numbers in of.items()]


def packed(rows: list[Stored]) -> list[list[Any]]:
    return [[*window, base64.b64encode(value).decode()] for window, value in rows]
