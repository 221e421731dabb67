"""What `dead-letters list` and `late list` print of entries: the newest, in order, with nothing left out."""

from __future__ import annotations

import pytest

from cutwater.cli.rejected.entries import LATE, LETTER, print_entries
from cutwater.core.driver.rejected_events import EventPosition, LatePair, Letter, Listed
from cutwater.core.protocol.generation import Generation
from support.cli.jsonshapes import parsed

WHY = ("qty", "is not a text", b'{"qty":\xff')


def by(epoch: int) -> Listed:
    return Listed(Generation(1, "local"), 2, epoch)


def letter(epoch: int, offset: int) -> Letter:
    event = EventPosition("t", 0, offset)
    return Letter(
        event,
        by(epoch),
        "undecodable",
        b"[k]\xff",
        3,
        1_700_000_000_000_000,
        EventPosition("t", 0, 90),
        (0, 0),
        *WHY,
    )


def test_letters_are_shown_newest_last_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """The limit keeps the newest epochs; keys and dates of every kind are shown; a short list is exit code 1."""
    letters = [letter(7, 2), letter(3, 9), letter(7, 1)]
    assert print_entries("letters", letters, ["one is missing"], LETTER, 2, as_json=True) == 1
    printed = capsys.readouterr()
    assert printed.err == "the list is not complete: one is missing\n"
    answer = parsed(["dead-letters", "list"], printed.out)
    assert (answer["total"], [one["offset"] for one in answer["entries"]]) == (3, [1, 2])
    assert answer["entries"][0] == {
        **{"topic": "t", "partition": 0, "offset": 1, "reason": "undecodable", "key": "[k]\\xff"},
        **{"value_bytes": 3, "written_ms": 1_700_000_000_000_000, "generation": "g1-local-00000000"},
        **{"attempt": 2, "epoch": 7, "replayed": "t/0/90"},
        **{"field": "qty", "rule": "is not a text", "head": '{"qty":\\xff'},
    }
    assert print_entries("letters", letters, [], LETTER, 2, as_json=False) == 0
    shown = capsys.readouterr().out
    assert "letters: 2 of 3" in shown
    assert all(one in shown for one in ("qty", "is not a text", '{"qty":\\xff'))


def test_late_pairs_are_shown_with_their_window(capsys: pytest.CaptureFixture[str]) -> None:
    """Each pair says its event, its window and the watermark that had closed it."""
    pair = LatePair(EventPosition("t", 1, 5), by(4), "JFK", 0, 60_000, 30_000, 90_000)
    assert print_entries("late", [pair], [], LATE, 10, as_json=True) == 0
    assert parsed(["late", "list"], capsys.readouterr().out)["entries"] == [
        {
            **{"topic": "t", "partition": 1, "offset": 5, "key": "JFK", "window_start": "1970-01-01T00:00:00Z"},
            **{"window_end": "1970-01-01T00:01:00Z", "event_time_ms": 30_000, "watermark_ms": 90_000},
            **{"generation": "g1-local-00000000", "attempt": 2, "epoch": 4},
        }
    ]
