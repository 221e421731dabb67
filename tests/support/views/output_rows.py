"""What an output says over a hand-over of generations, row by row, and what it should come to."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from cutwater.adapters.hashing import key_hash
from cutwater.client import CommittedMilestone
from cutwater.client.decoding import OutputDecoder
from cutwater.core.job.job import Job
from support.views.changelogs import HOUR_MS, Rows, Sold, Writing
from support.views.publishing import records


def sold(hour: int, amount: int, shops: int = 40, first: int = 0) -> list[Sold]:
    return [Sold(f"shop-{number}", hour, amount + number) for number in range(first, first + shops)]


def as_rows(rows: list[Sold]) -> Rows:
    return {(one.shop, one.hour * HOUR_MS): one.pieces for one in rows}


class Told(NamedTuple):
    """One row of the output."""

    kind: str
    name: tuple[str, int]
    pieces: int | None


def told(writing: Writing, job: Job) -> list[Told]:
    """Every row, in the order of its partition; each key in the one where it belongs for ever."""
    decoder, found = OutputDecoder(job), []
    for partition, key, value in records(writing.cluster, writing.job):
        if key is not None:
            change = decoder.change(value)
            assert key.decode() == change.key
            assert partition == job.shards.partition(job.shards.shard(key_hash(change.key)))
            amount = change.values["pieces"]
            found.append(
                Told(change.kind, (change.key, change.window_start_ms), None if amount is None else int(amount))
            )
    return found


def folded(rows: list[Told], above_ms: int) -> Rows:
    """What a plain reader ends with that keeps the last word of each row; of windows above a horizon."""
    kept: Rows = {}
    for one in rows:
        if one.pieces is None:
            assert one.kind == "tombstone"
            del kept[one.name]
        else:
            kept[one.name] = one.pieces
    return {name: amount for name, amount in kept.items() if name[1] + HOUR_MS > above_ms}


def expected(writing: Writing, job: Job) -> Rows:
    """What the output should come to: the state, of mode `final` what is closed of it."""
    assert writing.last is not None
    up_to = writing.last.watermark_ms if job.output.mode == "final" else 1 << 62
    return {name: amount for name, amount in writing.state.items() if name[1] + HOUR_MS <= up_to}


def require_no_repeat(rows: list[Told]) -> None:
    """No row says what the one before said; of each window there is one `final` row."""
    last: dict[tuple[str, int], Told] = {}
    for one in rows:
        before = last.get(one.name)
        assert before is None or before.pieces != one.pieces, f"{one} repeats {before}"
        last[one.name] = one
    assert all(count == 1 for count in Counter(one.name for one in rows if one.kind == "final").values())


def require_contiguous(milestones: list[CommittedMilestone]) -> None:
    firsts = [one.first_sequence for one in milestones]
    assert firsts == [1, *(one.token.sequence + 1 for one in milestones[:-1])]


def kinds(milestone: CommittedMilestone) -> dict[str, Rows]:
    found: dict[str, Rows] = {}
    for one in milestone.changes:
        amount = one.values["pieces"]
        name = (one.key, one.window_start_ms)
        found.setdefault(one.kind, {})[name] = -1 if amount is None else int(amount)
    return found
