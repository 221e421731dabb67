"""watch as a real process on a real broker: killed under load, restarted, told by others, heard by a webhook."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.adapters.runtime.log_setup import configure
from cutwater.adapters.topics.alerts import read_alerts, write_end_alert
from cutwater.core.errors import DivergenceError, FencedError, UsageError
from cutwater.core.monitoring.alerts import Alert, on
from cutwater.core.protocol import topics
from cutwater.local.machine.ports import free_ports
from support.harness import GENERATION, Flow, wait_until
from support.speaking_driver import QUICK, SpeakingDriver, metric

MODULE = "cutwater.watch"
TOKEN, SECRET_PATH = "token-that-must-not-show", "/hook-key-that-must-not-show"


class Hook:
    """A webhook that answers what it is told to."""

    def __init__(self) -> None:
        self.heard: list[tuple[str | None, str | None, dict[str, Any]]] = []
        self.answers: list[int] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status = hook.answers.pop(0) if hook.answers else 200
                if status == 200:
                    hook.heard.append((self.headers["Authorization"], self.headers["Idempotency-Key"], body))
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}{SECRET_PATH}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def states(self) -> list[tuple[str, str, str]]:
        return [(one["kind"], one["part"], one["state"]) for _, _, one in self.heard]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.close()


def watch(job: Flow, port: int = 0, **env: str) -> subprocess.Popen[bytes]:
    return job.start(MODULE, **QUICK, CUTWATER_WATCH_PORT=str(port), **env)


def kill(process: subprocess.Popen[bytes]) -> None:
    os.kill(process.pid, 9)
    assert process.wait(30) == -9


def records(job: Flow) -> list[Alert]:
    """Every record of the alerts topic, in log order."""
    consumer = make_consumer(job.cluster)
    topic = topics.alerts(job.job.name)
    low, high = bounds(consumer, topic, 0)
    found = (
        [protocol_records.decode(bytes(one.value())) for one in read_range(consumer, topic, 0, low)]
        if low < high
        else []
    )
    consumer.close()
    return [one for one in found if isinstance(one, Alert)]


def story(job: Flow) -> list[tuple[str, str, bool]]:
    return [(one.kind, one.part, one.on) for one in records(job)]


def on_now(job: Flow) -> set[tuple[str, str]]:
    return {one.key for one in on(read_alerts(job.cluster, job.job.name))}


SILENT, FENCED = ("silent", "commit-signal"), ("fenced-writer", "barriers")


@pytest.mark.slow
def test_killed_under_load_it_loses_only_itself_and_is_right_again_after_a_restart(
    job: Flow, driver: SpeakingDriver, hook: Hook
) -> None:
    """kill -9 while milestones come: they go on. What happens meanwhile is found later; nothing is told twice."""
    port = free_ports(1)[0]
    hooked = {"CUTWATER_ALERT_WEBHOOK_URL": hook.url, "CUTWATER_ALERT_WEBHOOK_TOKEN": TOKEN}
    signaller = job.signal()
    driver.thread.start()
    first = watch(job, port, **hooked)
    wait_until(lambda: (metric(port, "sequence") or 0) > 20, "milestones are followed")
    # Milestones from before its start count in the sequence, and no step of theirs is timed.
    wait_until(lambda: (metric(port, 'step_seconds_count{step="commit"}') or 0) > 5, "commits are timed")
    kill(first)
    before = len(job.milestones())
    wait_until(lambda: len(job.milestones()) > before + 50, "milestones go on without watch")
    assert story(job) == []

    kill(signaller)
    committed = driver.epoch
    wait_until(lambda: driver.epoch > committed, "an epoch that nobody signals")
    driver.end()
    driver.start(2)
    driver.epoch -= 1
    driver.write_epoch(attempt=1)  # a zombie
    second = watch(job, port, **hooked)
    wait_until(lambda: on_now(job) == {SILENT, FENCED}, "what happened meanwhile is found")
    behind = driver.epoch - len(job.milestones())
    assert behind >= 0
    wait_until(lambda: metric(port, "drift_epochs") == behind, "the drift")
    wait_until(lambda: len(hook.heard) == 2, "the webhook hears of them")

    kill(second)
    third = watch(job, port, **hooked)
    wait_until(lambda: metric(port, "drift_epochs") == behind, "the drift is known again")
    job.signal()
    wait_until(lambda: on_now(job) == {FENCED}, "milestones come again")
    wait_until(lambda: ("silent", "commit-signal", "resolved") in hook.states(), "the webhook hears of the end")
    told = [(*SILENT, True), (*FENCED, True), (*SILENT, False)]
    assert sorted(story(job)) == sorted(told)
    assert len({key for _, key, _ in hook.heard}) == 3
    third.terminate()
    begun = time.monotonic()
    assert third.wait(30) == 0
    assert time.monotonic() - begun < 15


@pytest.mark.slow
def test_alerts_reach_a_webhook_that_fails_at_first_and_secrets_stay_out_of_the_log(
    job: Flow, driver: SpeakingDriver, hook: Hook
) -> None:
    """Bounded tries; what is given up is counted; token and URL are in no line of the log."""
    port = free_ports(1)[0]
    driver.write_epoch()  # committed, and no signaller is there
    hook.answers = [503, 500]
    first = watch(job, port, CUTWATER_ALERT_WEBHOOK_URL=hook.url, CUTWATER_ALERT_WEBHOOK_TOKEN=TOKEN)
    wait_until(lambda: hook.states() == [(*SILENT, "raised")], "the third try")
    authorization, key, body = hook.heard[0]
    assert authorization == f"Bearer {TOKEN}"
    assert key == f"{body['id']}/raised"
    assert body["text"].startswith("epoch 0 is committed, and for")
    hook.answers = [404]
    job.signal()
    wait_until(lambda: metric(port, "webhook_undelivered_total") == 1, "a refusal is not tried again")
    assert (metric(port, "webhook_delivered_total"), len(hook.heard)) == (1, 1)
    first.terminate()
    assert first.wait(30) == 0
    log = job.log(MODULE).read_text()
    assert "an alert was not delivered to the webhook" in log
    assert TOKEN not in log
    assert SECRET_PATH not in log


def test_what_ends_a_service_is_told_once_before_it_leaves(job: Flow) -> None:
    """A restarted service that meets the same again does not repeat it; other errors are no alerts."""
    name, log = job.job.name, configure("test")
    wrong = DivergenceError("the changelog holds 3 rows with digest 7")

    def tell(service: str, error: Any, at_ms: int) -> None:
        write_end_alert(job.cluster, name, GENERATION, service, error, at_ms, log)

    tell("publisher", wrong, 1_000)
    tell("publisher", wrong, 2_000)
    tell("rehydrator", wrong, 2_000)
    tell("driver", FencedError("a newer process has taken over"), 3_000)
    tell("driver", UsageError("no such topic"), 4_000)
    assert story(job) == [
        ("divergence", "publisher", True),
        ("divergence", "view", True),
        ("fenced-writer", "driver", True),
    ]
    assert records(job)[0].text == str(wrong)


@pytest.mark.slow
def test_a_second_watch_takes_over_and_the_first_leaves(job: Flow, driver: SpeakingDriver) -> None:
    """One writes at a time: the older one is fenced at its next alert, and says so."""
    first = watch(job)
    wait_until(lambda: "ready" in job.log(MODULE).read_text(), "the first watches")
    watch(job)
    wait_until(lambda: job.log(MODULE).read_text().count("ready") == 2, "the second watches")
    driver.write_epoch()
    wait_until(lambda: SILENT in on_now(job), "one of them raises it")
    job.signal()
    assert first.wait(60) == FencedError.exit_code
    wait_until(lambda: SILENT not in on_now(job), "and resolves it")
    mine = [one for one in story(job) if one[:2] == SILENT]
    assert mine == [(*SILENT, True), (*SILENT, False)]
