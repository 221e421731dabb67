"""Streams of changes that outlive their generation, or the job's topics."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from cutwater.core.access.roles import Tokens
from cutwater.rehydrator.app import create_app
from cutwater.rehydrator.generation.switch import GenerationRouter
from cutwater.rehydrator.http_api.generation_app import GenerationApp
from cutwater.rehydrator.http_api.sse import HEARTBEAT
from cutwater.rehydrator.metrics.metrics import Metrics
from cutwater.rehydrator.routes import changes
from support.views.apiserving import Own, app_of, serving
from support.views.changelogs import GENERATION, make_job, now_ms, until


def test_a_reader_that_stays_does_not_hold_the_view_of_the_generation_before(tmp_path: Path) -> None:
    """Without an open request the earlier view is closed and deleted: a dashboard may read on for weeks."""
    job, metrics, routers = make_job(tmp_path)[0], Metrics(), list[GenerationRouter]()
    views = [Own(tmp_path / name, job) for name in ("earlier", "later", "last")]
    apps = [
        GenerationApp(
            create_app(one.view, GENERATION, metrics, now_ms, Tokens(plain=""), shown=lambda: routers[0].shown),
            "",
        )
        for one in views
    ]
    router = GenerationRouter(apps[0])
    routers.append(router)
    for sequence, one in enumerate(views, 1):
        one.show(sequence, {})
    with serving(router) as url:
        with httpx.stream("GET", f"{url}/v1/changes", timeout=60) as answer:
            names = (line for line in answer.iter_lines() if line.startswith("id: "))
            assert next(names) == f"id: {GENERATION}:1"
            assert [one.open_requests for one in apps] == [1, 0, 0]
            for sequence, one in enumerate(apps[1:], 2):
                router.show(one)
                assert next(names) == f"id: {GENERATION}:{sequence}", "the other generation's reset"
                assert [other.open_requests for other in apps] == [int(other is one) for other in apps]
        until(lambda: not any(one.open_requests for one in apps), "the end of the request")
    for own in views:
        own.close()


def test_a_token_of_a_stream_that_was_begun_again_is_reset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page reconnects with it after the job's topics were made again. Its generation has the same name, and the
    reader would hear nothing until as many milestones. A view that is behind may still reach the token."""
    monkeypatch.setattr(changes, "HEARTBEAT_S", 0.1)
    own = Own(tmp_path / "v", make_job(tmp_path)[0])
    own.show(3, {})
    asked = {"after": f"{GENERATION}:5000"}
    with (
        serving(app_of(own.view)) as url,
        httpx.stream("GET", f"{url}/v1/changes", params=asked, timeout=60) as it,
    ):
        lines = (line for line in it.iter_lines() if line and not line.startswith("retry"))
        assert [next(lines) for _ in range(2)] == [HEARTBEAT.strip()] * 2
        own.view.caught_up = True
        told = next(line for line in lines if line != HEARTBEAT.strip())
        assert (told, next(lines)) == ("event: reset", f"id: {GENERATION}:3")
    own.close()
