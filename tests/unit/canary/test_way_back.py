"""What the keeper of a way back takes for a promotion: two topics answer in an order that luck gives."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from cutwater.canary import way_back
from cutwater.canary.way_back import WayBack
from cutwater.core.errors import NotYetError
from cutwater.core.protocol.generation import Generation

LIVE, CANARY = Generation(1, "local"), Generation(2, "local", "ab12cd34")


@pytest.mark.parametrize(("promoted", "expected"), [([LIVE, CANARY], True), ([LIVE, LIVE], False)])
def test_a_withdrawal_counts_only_if_the_canary_is_not_promoted(
    promoted: list[Generation], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be written behind the promotion: whoever gives the canary up too late is told so."""
    answers = iter(promoted)
    known: Any = SimpleNamespace(require=lambda _generation: SimpleNamespace(open=False))
    monkeypatch.setattr(way_back, "promoted", lambda *_of: SimpleNamespace(generation=next(answers)))
    monkeypatch.setattr(way_back, "candidates", lambda *_of: known)
    monkeypatch.setattr(way_back, "Claims", lambda *_of: None)
    monkeypatch.setattr(way_back, "LOOK_S", 0.0)
    settings: Any = SimpleNamespace(cluster=None, region="local")
    job: Any = SimpleNamespace(name="shop")
    keeper = WayBack(job, settings, threading.Event(), lambda *_of: None, None)  # type: ignore[arg-type,return-value]
    assert keeper._await_promotion(CANARY) is expected


@pytest.mark.parametrize(
    ("newest", "expected"), [(CANARY, "g4-local"), (Generation(3, "local", "cd34ef56"), None)]
)
def test_a_way_back_waits_while_another_generation_is_being_promoted(
    newest: Generation, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal for now would be final: the comparing process ends with it."""
    answers = iter([NotYetError("g3 is being promoted"), SimpleNamespace(claim=expected)])

    def ask(*_of: object) -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(way_back, "promoted", lambda *_of: SimpleNamespace(generation=newest))
    monkeypatch.setattr(way_back, "Claims", lambda *_of: SimpleNamespace(ask=ask))
    monkeypatch.setattr(way_back, "LOOK_S", 0.0)
    settings: Any = SimpleNamespace(cluster=None, region="local")
    job: Any = SimpleNamespace(name="shop")
    log: Any = SimpleNamespace(info=lambda *_of, **_more: None)
    keeper = WayBack(job, settings, threading.Event(), lambda *_of: None, log)  # type: ignore[arg-type,return-value]
    assert keeper._claimed(None, None, CANARY) == expected  # type: ignore[arg-type]
