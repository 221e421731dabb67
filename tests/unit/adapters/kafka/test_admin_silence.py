"""Brokers that never answer a question of the admin client: a bounded wait, and an error of Cutwater's own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.client import failure
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.checks.replication import UNREPLICATED
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol.topics import TopicSpec

NOWHERE = Cluster("127.0.0.1:1")


class Silent:
    """An admin client that takes every question."""

    def __init__(self) -> None:
        self.bounds: list[object] = []

    def __getattr__(self, _question: str) -> Callable[..., dict[Any, Future[Any]]]:
        def ask(asked: list[Any], *, request_timeout: float | None = None, **_more: object) -> Any:
            self.bounds.append(request_timeout)
            return {one: Future() for one in asked}

        return ask


ASKED: dict[str, Callable[[Silent], object]] = {
    "settings": lambda silent: admin._topic_configs(silent, ["t"]),  # type: ignore[arg-type]
    "a change": lambda _: admin.set_configs(NOWHERE, "t", {"retention.ms": "1"}),
    "deleting": lambda _: admin.delete_topics(NOWHERE, ["t"]),
    "may it be": lambda _: admin.not_creatable(NOWHERE, [TopicSpec("t", 1, ())], UNREPLICATED),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_silence_is_an_outage(ask: Callable[[Silent], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Not Python's own time-out, which nobody catches: a mirror ended with a traceback."""
    silent = Silent()
    monkeypatch.setattr(admin, "TIMEOUT_S", 0.01)
    monkeypatch.setattr(admin, "admin_client", lambda _: silent)
    with pytest.raises(UnavailableError, match=r"no answer in 0\.02 s"):
        ask(silent)
    assert silent.bounds == [0.01], "librdkafka waits no longer, either"


def test_silence_of_any_answer_is_an_outage() -> None:
    with pytest.raises(UnavailableError, match=r"describing topic t: no answer in 0\.01 s"):
        failure(Future(), "describing topic t", 0.01)
