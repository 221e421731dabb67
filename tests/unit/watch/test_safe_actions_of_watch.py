"""Safe actions as watch does them: recorded before they are done, and remembered over a restart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cutwater.adapters.config.settings import Settings, load_settings
from cutwater.adapters.runtime import restart_request
from cutwater.adapters.runtime.restart_request import RestartRequest, take_requests
from cutwater.core.access.audit_log import AuditRecord
from cutwater.core.errors import FencedError, UnavailableError, UsageError
from cutwater.core.monitoring import alerts
from cutwater.core.monitoring.alerts import Alert
from cutwater.core.monitoring.disk_forecast import Disk, FreeSpace
from cutwater.core.monitoring.job_status import JobStatus
from cutwater.core.monitoring.safe_actions import HOLD_MS, HOUR_MS, KEPT_MAX
from cutwater.core.protocol.generation import Generation
from cutwater.watch import safe_actions
from cutwater.watch.action_audit import ActionAudit
from cutwater.watch.metrics import Metrics
from cutwater.watch.safe_actions import ActionLog, SafeActions
from support.protocol_samples import GENERATION, JOB, OTHER

NOW = 10 * HOUR_MS


class Log:
    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def warning(self, event: str, **values: Any) -> None:
        self.lines.append({"event": event, **values})


class Acting:
    """A watch's actions on a folder, and what it logs and counts."""

    def __init__(self, folder: Path, allowed: str = "restart,pause-mirror,shed") -> None:
        self.settings = load_settings(
            {
                "CUTWATER_DATA_DIR": str(folder),
                "CUTWATER_WATCH_ACTIONS": allowed,
                "CUTWATER_ORIGIN_REGION": "us",
                "CUTWATER_ORIGIN_BOOTSTRAP_SERVERS": "127.0.0.1:9",
            }
        )
        self.folder, self.log, self.metrics, self.now = folder, Log(), Metrics(), NOW
        self.actions = ActionLog(folder / "actions.json", self.metrics, self.log)
        self.audited: list[AuditRecord] = []
        audit = SimpleNamespace(write=self.audited.append)
        made = ActionAudit(JOB, audit, self.log)  # type: ignore[arg-type]
        self.held: list[tuple[Any, ...]] = []
        self.fenced = 0
        claims: Any = SimpleNamespace(hold=self._hold)
        self.made = SafeActions(self.settings, self.actions, made, claims, lambda: self.now, lambda _s: None)

    def _hold(self, *words: Any) -> None:
        if self.fenced:
            self.fenced -= 1
            raise FencedError("another process claims")
        self.held.append(words)

    def act(
        self, kind: str, part: str, since_ms: int = NOW - HOUR_MS, candidate: Generation | None = None
    ) -> list[RestartRequest]:
        alert = Alert(JOB, GENERATION, kind, part, "watch", since_ms, None, 1, 0, "")
        state = replace(JobStatus(JOB, GENERATION), alerts={alert.key: alert}, candidate=candidate)
        self.made.act(replace(state, disks={"a": Disk(100, FreeSpace(0, 0))}))
        return take_requests(self.folder)

    def count(self, kind: str, outcome: str) -> float | None:
        labels = {"kind": kind, "outcome": outcome}
        return self.metrics.registry.get_sample_value("cutwater_watch_actions_total", labels)


def test_a_stuck_process_is_restarted_by_a_request(tmp_path: Path) -> None:
    """Once, logged and counted twice: before it and after it."""
    one = Acting(tmp_path)
    (request,) = one.act(alerts.STUCK_EPOCH, alerts.DRIVER)
    assert (request.process, request.generation, request.env) == ("driver", str(GENERATION), {})
    assert "stuck-epoch" in request.why
    assert [line["outcome"] for line in one.log.lines] == ["begun", "done"]
    assert one.log.lines[0]["alert"] == f"{JOB}/stuck-epoch/driver/{NOW - HOUR_MS}"
    assert (one.count("restart", "begun"), one.count("restart", "done")) == (1, 1)
    assert [(record.action, record.object, record.outcome, record.actor) for record in one.audited] == [
        ("watch restart", "driver", "begun", "watch"),
        ("watch restart", "driver", "done", "watch"),
    ]
    assert one.act(alerts.STUCK_EPOCH, alerts.DRIVER) == []


def test_a_watch_that_starts_again_remembers(tmp_path: Path) -> None:
    assert Acting(tmp_path).act(alerts.STUCK_EPOCH, alerts.DRIVER)
    again = Acting(tmp_path)
    assert again.act(alerts.STUCK_EPOCH, alerts.DRIVER) == []
    assert again.log.lines == []
    again.now += 20 * HOUR_MS
    assert again.act(alerts.STUCK_EPOCH, alerts.DRIVER) == []
    assert again.act(alerts.STUCK_EPOCH, alerts.DRIVER, since_ms=again.now - HOUR_MS)


def test_a_crash_in_the_middle_counts_as_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record is there before the action."""

    def crash(*_args: object) -> None:
        raise KeyboardInterrupt

    crashing = Acting(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(safe_actions, "write_request", crash)
        with pytest.raises(KeyboardInterrupt):
            crashing.act(alerts.STUCK_EPOCH, alerts.DRIVER)
    assert Acting(tmp_path).act(alerts.STUCK_EPOCH, alerts.DRIVER) == []


def test_what_cannot_be_recorded_is_not_done(tmp_path: Path) -> None:
    one = Acting(tmp_path)
    (tmp_path / "actions.tmp").mkdir()
    assert one.act(alerts.STUCK_EPOCH, alerts.DRIVER) == []
    assert one.log.lines[-1]["outcome"] == "failed"


def test_a_mirror_is_paused_by_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails is recorded, and ends nothing."""
    steered: list[Any] = []
    monkeypatch.setattr(safe_actions, "control_mirror", lambda _cluster, *args: steered.append(args))
    one = Acting(tmp_path)
    assert one.act(alerts.FILLING_DISK, alerts.DATA_FOLDER) == []
    assert steered == [(JOB, "us", True, NOW)]

    def refuse(*_args: Any) -> None:
        raise UnavailableError("no broker answers")

    monkeypatch.setattr(safe_actions, "control_mirror", refuse)
    one.now += 5 * HOUR_MS
    one.act(alerts.FILLING_DISK, alerts.DATA_FOLDER, since_ms=one.now - HOUR_MS)
    assert one.log.lines[-1]["detail"] == "no broker answers"
    assert one.count("pause-mirror", "failed") == 1


def test_fewer_epochs_are_a_restart_with_a_setting(tmp_path: Path) -> None:
    (request,) = Acting(tmp_path).act(alerts.SLOWER, alerts.SIGNAL)
    assert (request.process, request.env) == ("driver", {"CUTWATER_TRIGGER_MS": "2000"})
    assert set(request.env) == restart_request.MAY_CHANGE


def test_a_candidate_is_held_although_another_process_claims(tmp_path: Path) -> None:
    """What failed is not done again for the same alert."""
    one = Acting(tmp_path, "hold")
    one.fenced = 1
    one.act(alerts.DEAD_LETTERS, alerts.SOURCE, candidate=OTHER)
    assert len(one.held) == 1
    assert one.count("hold", "done") == 1


def test_a_candidate_is_held_once_and_on_record(tmp_path: Path) -> None:
    one = Acting(tmp_path, "hold")
    assert one.act(alerts.DEAD_LETTERS, alerts.SOURCE) == []
    assert one.held == [], "there is no candidate"
    for _ in range(2):
        one.act(alerts.DEAD_LETTERS, alerts.SOURCE, candidate=OTHER)
    name = f"{JOB}/dead-letters/source/{NOW - HOUR_MS}"
    assert one.held == [(OTHER, HOLD_MS, "watch", f"alert {name}")]
    assert [(record.action, record.object, record.outcome) for record in one.audited] == [
        ("generation hold", str(OTHER), "begun"),
        ("generation hold", str(OTHER), "done"),
    ]
    unwanted = Acting(tmp_path / "other")
    (tmp_path / "other").mkdir()
    unwanted.act(alerts.DEAD_LETTERS, alerts.SOURCE, candidate=OTHER)
    assert unwanted.held == []
    assert not unwanted.made.may_hold


def test_what_is_kept_is_bounded(tmp_path: Path) -> None:
    one = Acting(tmp_path)
    for number in range(KEPT_MAX + 5):
        one.now = NOW + number * 10 * HOUR_MS
        one.act(alerts.STUCK_EPOCH, alerts.DRIVER, since_ms=one.now - HOUR_MS)
    assert len(one.actions.done) == len(Acting(tmp_path).actions.done) == KEPT_MAX


def test_a_file_of_another_form_is_none(tmp_path: Path) -> None:
    (tmp_path / "actions.json").write_text('[{"kind": "restart"}]')
    assert Acting(tmp_path).actions.done == []


def test_the_setting_names_actions_only() -> None:
    assert Settings(watch_actions="").safe_actions == frozenset()
    assert Settings(watch_actions=" shed, restart").safe_actions == {"shed", "restart"}
    with pytest.raises(UsageError, match="CUTWATER_WATCH_ACTIONS: drop: write some of restart"):
        _ = Settings(watch_actions="drop,shed").safe_actions
