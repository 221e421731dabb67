"""Which values `--json` can print, and how; anything else is refused."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.cli.json_values import json_text, to_plain
from cutwater.cli.report import milestone_json
from cutwater.core.protocol.cuts import NOWHERE, Cut, TopicPartition
from cutwater.core.protocol.generation import Generation, Token
from support.protocol_samples import CUTS, GENERATION, milestone


class Level(StrEnum):
    OK = "ok"


class Colour(Enum):
    RED = 1


class Pair(NamedTuple):
    name: str
    cut: Cut


@dataclass(frozen=True)
class Record:
    token: Token
    pairs: tuple[Pair, ...]


CUT = Cut.of_topic("t", [5, 7])


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (NOWHERE, {}), (CUT, {"t/0": 5, "t/1": 7}), (GENERATION, "g1-local-00000000"),
        (Token(Generation(2, "eu", "0badcafe"), 42), "g2-eu-0badcafe:42"), (b"\x00\xff", "00ff"),
        (Path("a") / "b", "a/b"), (Level.OK, "ok"), (Colour.RED, 1), ((1, 2), [1, 2]),
        ([None, True], [None, True]),
        (Pair("n", CUT), {"name": "n", "cut": {"t/0": 5, "t/1": 7}}),
        (
            Record(Token(GENERATION, 1), (Pair("n", NOWHERE),)),
            {"token": "g1-local-00000000:1", "pairs": [{"name": "n", "cut": {}}]},
        ),
        ({Level.OK: 1, 3: 2, TopicPartition("t", 0): 3}, {"ok": 1, "3": 2, "t/0": 3}),
        ([float("nan"), float("inf"), float("-inf"), 0.1], ["NaN", "Infinity", "-Infinity", 0.1]),
    ],
)  # fmt: skip
def test_each_kind_of_value_has_one_form(value: Any, told: Any) -> None:
    assert to_plain(value) == told
    assert json.loads(json_text(value)) == told


@pytest.mark.parametrize(
    "value",
    [
        object(),
        Decimal("1.5"),
        datetime(2026, 1, 1, tzinfo=UTC),
        {1},
        threading,
        Record,
        {(1,): 2},
        {None: 1},
        {True: 1},
    ],
    ids=lambda one: type(one).__name__,
)
def test_anything_else_is_refused(value: Any) -> None:
    """Never printed as Python writes it, not deep inside of something either."""
    with pytest.raises(TypeError):
        json_text(value)
    with pytest.raises(TypeError):
        json_text({"deep": [value]})


@given(CUTS)
def test_a_cut_keeps_its_offsets(cut: Cut) -> None:
    assert sorted(json.loads(json_text(cut)).values()) == sorted(
        {f"{place.topic}/{place.partition}": offset for place, offset in cut}.values()
    )


def test_a_milestone_has_values_only() -> None:
    """The cut of an origin is one like the others; it was `Cut(entries=())`."""
    told = json.loads(json_text(milestone_json(milestone(0))))
    assert (told["token"], told["origin_cut"]) == ("g1-local-00000000:1", {})
    assert told["source_cut"] == {"flights.events/0": 100, "flights.events/1": 90}
    assert told["parent_hash"] == "00" * 32


@given(st.text(st.characters()), st.booleans())
def test_no_text_is_obeyed_by_a_terminal(text: str, ascii_only: bool) -> None:
    """And each comes back as it was, where JSON is read; letters stay letters unless ASCII is wanted."""
    made = json_text({"key": text}, ascii_only=ascii_only)
    assert made.isprintable()
    made.encode("ascii" if ascii_only else "utf-8")
    assert json.loads(made)["key"] == json.loads(json.dumps(text))


def test_letters_stay_letters() -> None:
    assert json_text("東京", ascii_only=False) == '"東京"'
