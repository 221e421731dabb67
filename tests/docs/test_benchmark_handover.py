"""The arithmetic of the hand-over's figures, with plain values."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import pytest

from cutwater.core.protocol.generation import Generation, Token

OLD, NEW = Generation(1, "local"), Generation(2, "local", "5f0c21aa")


def seen(part: Any, *moments: tuple[float, Generation, int]) -> list[Any]:
    sight = part("generation_handover.gaps").Sight
    return [sight(at_s, Token(generation, sequence)) for at_s, generation, sequence in moments]


def test_a_gap_counts_where_a_part_of_it_is_inside(part: Any) -> None:
    """A pause that began before the verb, or lasts beyond the end, is one of that time all the same."""
    gaps = part("generation_handover.gaps")
    sights = seen(part, (0, OLD, 1), (1, OLD, 2), (5, NEW, 3), (6, NEW, 4), (9, NEW, 5))
    assert [one.seconds for one in gaps.inside(sights, 2, 7)] == [4, 1, 3]
    assert gaps.longest(sights, 5.5, 8).seconds == 3
    assert gaps.longest(sights, 10, 20) is None


def test_the_change_is_between_the_two_generations(part: Any) -> None:
    """From the last milestone of the one that this reader had to the first of the other, whichever these are."""
    change = part("generation_handover.gaps").change
    over = change(seen(part, (0, OLD, 1), (1, OLD, 2), (5, NEW, 4), (9, NEW, 5)), NEW)
    assert (over.last, over.next, over.seconds) == (Token(OLD, 2), Token(NEW, 4), 4)
    assert change(seen(part, (0, OLD, 1), (1, OLD, 2)), NEW) is None


def test_a_pause_is_divided_by_the_promotion_and_told(part: Any) -> None:
    """All parts of the change add up to it, and the steps to the time from the claim to the promotion."""
    report = part("generation_handover.report")
    offset_s = 1_000.0

    def milestone(generation: Generation, sequence: int, at_s: float) -> Any:
        committed_ms = (at_s + offset_s) * 1000
        return SimpleNamespace(
            generation=generation,
            token=Token(generation, sequence),
            committed_ms=committed_ms,
            epoch_started_ms=committed_ms - 500,
        )

    stream = [milestone(OLD, number, float(number)) for number in range(1, 31)]
    stream += [milestone(NEW, number, float(number + 2)) for number in range(31, 41)]
    moments = report.Moments(NEW, offset_s, 2.0, 12.0, 28.0, 43.0)
    begun_ms = (14 + offset_s) * 1000
    start = {"begun_ms": begun_ms, "took_ms": 3_000, "steps": [{"name": "seeding", "took_ms": 3_000}]}
    first = milestone(NEW, 1, 20.0)
    records = report.Records(
        (13 + offset_s) * 1000, start, first, (29 + offset_s) * 1000, stream, (33.2 + offset_s) * 1000
    )
    api = seen(
        part, *((one.committed_ms / 1000 - offset_s + 0.25, one.generation, one.token.sequence) for one in stream)
    )
    answers = [(5.0, 0.002), (20.0, 0.1), (33.0, 0.03)]
    reader = SimpleNamespace(seen=api, answers=answers)
    found = report.figures(moments, records, reader, reader, 1_000_000)
    assert (found["milestones_s"]["median"], found["limit_s"]) == (1.0, 3.0)
    assert [report.limit_more_s(keys) for keys in (1_000_000, 1_000_001)] == [2, 5]
    of = found["readers"]["api"]
    assert of["steady_s"]["max"] == pytest.approx(1)
    assert of["promotion_longest_s"] == of["change"]["seconds"] == pytest.approx(3)
    assert of["change"]["to_the_promotion_s"] == pytest.approx(2.75)
    assert of["change"]["behind_it_s"] == pytest.approx(0.25)
    assert found["readers"]["output"]["change"]["states_read_s"] == pytest.approx(0.2)
    assert found["answers_ms"] == pytest.approx({"steady": 2, "catching up": 100, "promotion": 30})
    assert sum(one["seconds"] for one in found["steps"]) == pytest.approx(33 - 12)
    written = {"machine": {"cores": 2}, "exact": True, "keys": 5, "rate": 1, "partitions": [4, 6], **found}
    text = "\n".join(report.result_lines("Hand-over", written))
    assert "a pause's limit 3.0." in text
    assert "| **from the verb `promote` on: longest** | 3.00 | 3.00 |" in text
    assert "| … of that, until the publisher has the two states to compare |  | 0.20 |" in text
    assert "| driver: seeding | 3.0 | 14% |" in text


def test_a_row_that_is_said_again_is_a_fault(part: Any) -> None:
    """So is a correction; a row with more events is none."""
    readers, client = part("generation_handover.readers"), importlib.import_module("cutwater.client")
    reader = readers.OfTheOutput(None, None, Token(OLD, 1))

    def take(kind: str, events: int) -> int:
        reader._take(Token(OLD, 2), client.Change("a", 0, 1, kind, {"events": events}))
        return len(reader.faults)

    assert [take("update", 2), take("update", 3), take("update", 3), take("correction", 4)] == [0, 0, 1, 2]


def test_an_answer_that_goes_back_is_a_fault(part: Any) -> None:
    """The first moment of each milestone is kept."""
    reader = part("generation_handover.readers").OfTheApi("", {})
    for sequence in (4, 4, 5, 4):
        reader._saw(Token(OLD, sequence))
    assert [one.token.sequence for one in reader.seen][:2] == [4, 5]
    assert len(reader.faults) == 1
