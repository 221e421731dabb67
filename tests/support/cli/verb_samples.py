"""Every verb on constructed records: what it asks of brokers, services and stores is answered here."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import pytest

from cutwater.adapters.events.fetched_schema import FetchedSchema
from cutwater.cli import action_audit
from cutwater.cli.generations import canary, claim, generation, generation_rows, promotion_wait, rollback
from cutwater.cli.generations import hold as generation_hold
from cutwater.cli.generations import prune as generations_prune
from cutwater.cli.generations import schedule as generation_schedule
from cutwater.cli.job import calibrate, doctor, init, load, prepare, produce, schemas
from cutwater.cli.past import blame, diff, difference_report, replay
from cutwater.cli.regions import failover, forks, mirror, regions
from cutwater.cli.rejected import late_events, rejected_events
from cutwater.cli.skew import skew
from cutwater.cli.skew import spread as spread_verbs
from cutwater.cli.stack import audit, cadence, chaos, history, incident, incident_parts, up
from cutwater.cli.stack import status as status_verb
from cutwater.cli.state import (
    distinct,
    export,
    get,
    hot_keys,
    lineage,
    milestones,
    prune,
    restore,
    snapshots,
    tail,
    verify,
    verify_regions,
)
from cutwater.core.access.audit_log import AuditRecord, AuditRecords
from cutwater.core.chaos.plan import ChaosPlan, Fault
from cutwater.core.chaos.recovery import Reaction
from cutwater.core.errors import UnavailableError
from cutwater.core.generations.candidates import EarlierClaim
from cutwater.core.monitoring.alerts import plain
from cutwater.core.sizing.calibration import Phase
from cutwater.core.sizing.machine import Machine
from cutwater.core.state.snapshot_manifest import Unusable
from cutwater.local.calibration.run import Calibration
from cutwater.local.chaos.replay import ReplayComparison
from cutwater.local.chaos.run import ChaosResult
from cutwater.mirror.resync.resync import CopyState
from cutwater.operations.generations.requests import Planned
from cutwater.operations.job_status import OpenTransaction
from cutwater.operations.load_sender import Delivery
from cutwater.operations.regions.failover import Releasing
from support.cli import verb_records as records
from support.cli.verb_records import HOSTILE, JOB_FILE, OTHER
from support.regions.mirror_samples import golden_mirror_record

Patch = Callable[[pytest.MonkeyPatch, Path], None]


class Sample(NamedTuple):
    """A command line, and what is put in the place of the world; `{}` in a word is a folder."""

    words: list[str]
    patch: Patch
    code: int = 0
    lines: bool = False
    """Is each line of its JSON a value?"""


def put(module: Any, **answers: Any) -> Patch:
    """Answers in the place of a module's functions, or objects in the place of the modules that it uses."""

    def patch(monkeypatch: pytest.MonkeyPatch, _folder: Path) -> None:
        for name, answer in answers.items():
            whole = isinstance(getattr(module, name), ModuleType | SimpleNamespace)
            made = answer if whole else lambda *_args, _answer=answer, **_named: _answer
            monkeypatch.setattr(module, name, made)

    return patch


def keep_audit(monkeypatch: pytest.MonkeyPatch) -> list[AuditRecord]:
    """The records of actions in the place of their topic."""
    kept: list[AuditRecord] = []
    monkeypatch.setattr(action_audit, "AuditLog", lambda *_args: SimpleNamespace(write=kept.append))
    return kept


def all_of(*patches: Patch) -> Patch:
    def patch(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        for one in patches:
            one(monkeypatch, folder)

    return patch


def nothing(_monkeypatch: pytest.MonkeyPatch, _folder: Path) -> None: ...


def answering(**answers: Any) -> Any:
    """An object whose methods give these answers."""
    made = {name: lambda *_args, _answer=one, **_named: _answer for name, one in answers.items()}
    return SimpleNamespace(**made)


def running(module: Any) -> Patch:
    return put(module, running_file=answering(require=records.STACK, find=records.STACK, stacks=[records.STACK]))


def listed(entries: list[Any]) -> Any:
    return SimpleNamespace(entries=entries, problems=[], elsewhere=[HOSTILE])


def demo_regions(monkeypatch: pytest.MonkeyPatch, _folder: Path) -> None:
    pytest.importorskip("pandas")
    from examples.two_regions import run as module

    def run(_wanted: Any, _settings: Any, _console: Any, telling: Any, _verify: Any) -> int:
        with telling.step(HOSTILE):
            telling.fact("lost", 12, f"{HOSTILE} is lost")
            telling.check("nothing is lost", True, HOSTILE)
            telling.not_shown(HOSTILE)
        return 0

    monkeypatch.setattr(module, "run", run)


def claims(again: bool = False) -> Patch:
    made = answering(
        planned=Planned(records.CLAIM, again),
        known=SimpleNamespace(
            by_id=dict(enumerate(records.CANDIDATES)),
            require=lambda _generation: records.CANDIDATES[1],
            job_files={"ab": records.REDEFINITION},
        ),
        to_promote=False,
        to_abort=records.CANDIDATES[1],
        to_hold=None,
        hold_of=records.HOLD,
        to_schedule=records.BOUNDS,
    )
    place = {"find_job": records.PLACE, "claims_of": made}
    return all_of(
        put(generation, promoted=records.NEWEST, **place),
        put(generation_rows, promoted=records.NEWEST),
        put(promotion_wait, promoted=records.NEWEST, claims_of=made),
        put(
            claim,
            claims_of=made,
            promoted=records.NEWEST,
            require_works=records.SEED,
            _count_moved=records.MOVED,
            state_change=None,
        ),
        put(rollback, **place),
        put(generation_hold, **place),
        put(generation_schedule, **place, now_ms=records.AT_MS, arrivals_per_s=9_000.0),
        put(difference_report, compared=records.COMPARED_MILESTONES),
    )


def canaries() -> Patch:
    shown = {"find_job": records.PLACE, "find_canary": records.CANARY, "require_comparable": None}
    made = answering(to_abort=records.CANDIDATES[1])
    return all_of(claims(), put(canary, claims_of=made, **shown))


def pruning(monkeypatch: pytest.MonkeyPatch, _folder: Path) -> None:
    monkeypatch.setattr(generations_prune, "find_job", lambda *_args: records.PLACE)
    monkeypatch.setattr(
        generations_prune, "GenerationPruning", lambda *_args: answering(list_earlier=records.EARLIER)
    )


def pruning_streams(monkeypatch: pytest.MonkeyPatch, _folder: Path) -> None:
    monkeypatch.setattr(prune, "find_job", lambda *_args: records.PLACE)
    monkeypatch.setattr(prune, "Pruning", lambda *_args: answering(look=records.CUTS))


def going_on(planned: bool) -> Patch:
    again = EarlierClaim(records.CLAIM, True)
    found = records.FOUND._replace(released=records.RELEASE) if planned else records.FOUND
    one = answering(read_copies=found, earlier_claim=again)
    return put(
        failover,
        _make_failover=one,
        promoted=records.NEWEST,
        _existing_release=records.RELEASE,
        _await_arrival=found,
        require_current=None,
    )


def initialising(monkeypatch: pytest.MonkeyPatch, _folder: Path) -> None:
    from cutwater.operations.topic_sample import Sample as Record

    rows = [Record(0, number, records.AT_MS + number, None, _event(number).encode(), 0) for number in range(50)]
    put(init, wait_for_broker=None, partition_count=3, _samples=rows)(monkeypatch, _folder)


def _event(number: int) -> str:
    return f'{{"customer": "c{number % 5}", "at": "2026-01-01T00:00:{number:02d}Z", "amount": {number}}}'


def _place_of_mirror() -> Patch:
    return put(mirror, _place=(records.SETTINGS, "flights", "us"))


def resyncing(**answers: Any) -> Patch:
    standing = CopyState("flights.events", HOSTILE, [records_mirrored()], True, True)
    made = {
        "read_copy_state": standing,
        "require_any": None,
        "last_arrival": records.ARRIVAL,
        "resync": None,
        "withdraw": None,
    }
    return all_of(_place_of_mirror(), put(mirror, resyncing=answering(**made, **answers)))


def records_mirrored() -> Any:
    return golden_mirror_record("mirrored")


def from_a_snapshot(monkeypatch: pytest.MonkeyPatch, _folder: Path) -> None:
    from cutwater.cli.regions import resync

    standing = CopyState("flights.events", HOSTILE, [], True, False)
    plan = SimpleNamespace(
        copy_state=standing,
        seed=SimpleNamespace(milestone=records.NEWEST, cuts={0: 5, 1: 1_234_567}),
        kept={0: (0, 9), 1: (1, 2_345_678)},
        parts=[SimpleNamespace(repository=SimpleNamespace(names=records.NAMES))],
        passed_over={3: HOSTILE},
        files=12,
        size=10**9,
    )
    _place_of_mirror()(monkeypatch, _folder)
    put(resync, _seeding=answering(plan=plan), last_arrival=None)(monkeypatch, _folder)


def producing(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    running(produce)(monkeypatch, folder)
    put(produce, registry_for=None)(monkeypatch, folder)
    monkeypatch.setattr(produce, "EventWriter", lambda *_args: answering(write_all=1_234_567))


def breaking(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    running(chaos)(monkeypatch, folder)
    plan = ChaosPlan(60, 10, 30, [Fault("kill", "driver", 5), Fault("stop", "broker", 20, 10)], None)
    reactions = [
        Reaction(plan.faults[0], HOSTILE, 2.5, 12.25, 14.0, True),
        Reaction(plan.faults[1], "", None, 0.0, None, False),
    ]
    found = ChaosResult(plan, [], reactions, {}, {0: 3, 1: 1}, 1_234_567, True)
    rows = ReplayComparison(1_234_567, 0, 1)
    put(chaos, read_chaos_plan=plan, run_chaos=found, compare_with_replay=rows)(monkeypatch, folder)


def heating(monkeypatch: pytest.MonkeyPatch, _folder: Path) -> None:
    window = "2026-01-01T00:00:00Z"
    reads = {"since": window, "reads": 9, "keys_error": 0, "windows_error": 0}
    reads |= {"keys": [{"key": HOSTILE, "reads": 9}], "windows": [{"window_start": window, "reads": 9}]}
    top = {"rows": [{"key": "JFK", "window_start": window, "movements": 1_234_567}]}
    answers = {"/v1/reads": reads, "/v1/top": top}

    def ask(url: str, *_args: Any) -> Any:
        for path, found in answers.items():
            if url.endswith(path):
                return found
        raise UnavailableError(f"no census: {HOSTILE}")

    monkeypatch.setattr(hot_keys, "ask", ask)


def spreading() -> Patch:
    control = answering(
        state=records.ADOPTED, obstacles=(), planned=records.SPREAD, planned_without=records.SPREAD
    )
    return all_of(
        put(skew, find_job=records.PLACE, read_load=records.LOAD, SpreadControl=control),
        put(spread_verbs, find_job=records.PLACE, SpreadControl=control),
    )


def gathering(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """No broker answers, the stack has ended, and the file has the same time whenever it is written."""
    (folder / "incident.zip").unlink(missing_ok=True)
    put(
        incident_parts,
        running_file=answering(last=replace(records.ENDED, data_dir=str(folder))),
        findings_of=records.FINDINGS,
    )(monkeypatch, folder)
    monkeypatch.setattr(incident_parts, "ask", _unanswered)
    monkeypatch.setattr(incident, "now_ms", lambda: records.AT_MS)
    (folder / "logs").mkdir(exist_ok=True)
    (folder / "logs" / "driver.log").write_text(HOSTILE)


def _unanswered(*_args: Any) -> None:
    raise UnavailableError(f"no broker answers: {HOSTILE}")


def measuring(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    phase = Phase(1, 4, 10, 300_000, 1_234_567, 20.0, True, 12.5, 3.25, 7.5)
    put(calibrate, measure=Calibration(replace(Machine(), row_us=12.3456), [phase], []))(monkeypatch, folder)


def ruling(_monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    (folder / "policy.yaml").write_text("names: team-.*\nlateness: {at_most: 1h}\n")


def loading(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    running(load)(monkeypatch, folder)
    sent = Delivery({"plain": 1_234_567, "late": 5}, 60.0, 2.5)
    put(load, registry_for=None, EventWriter=None, send_load=sent)(monkeypatch, folder)


def registering(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    made: Any = nullcontext()
    made.register = lambda *_args: 7
    put(schemas, registry_for=made, written_subjects=[(HOSTILE, {})], cluster_for=None)(monkeypatch, folder)


def fetching(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    files = {"orders-value.proto": b"", "common/money.proto": b""}
    found = FetchedSchema(HOSTILE, 3, 7, "PROTOBUF", files, ("shop.Order", HOSTILE))
    put(schemas, fetch_schema=found, _registry=nullcontext())(monkeypatch, folder)


def restoring() -> Patch:
    place = (records.JOB, records.SETTINGS)
    return put(restore, _tiers=(), read_sources=None, plan=records.RESTORING, working_for=place)


def storing() -> Patch:
    def manifest(sequence: int) -> Any:
        if sequence == 3:
            raise Unusable(f"its manifest is damaged: {HOSTILE}")
        return records.MANIFEST

    shelf = SimpleNamespace(
        names=records.NAMES,
        sequences=lambda: [3, 2],
        manifest=manifest,
        stored=lambda: {"a": 1_234_567},
        prune=lambda *_args, **_named: records.PRUNED,
        require_size=lambda _file: None,
        chunks=lambda _file: [],
    )
    place = SimpleNamespace(
        job="flights",
        store=SimpleNamespace(place="s3://backups", repository=lambda _names: shelf),
        settings=records.SETTINGS,
        api_url="http://127.0.0.1:1",
        cluster=None,
        repositories=lambda: [shelf],
        needed=lambda _shelf: frozenset(),
    )
    answer = {"token": "g1-local-00000000:2", "share": "all"}
    return put(snapshots, _place=place, _ask=answer, _wait=None)


def status(view: dict[str, Any], alerts: list[Any]) -> Patch:
    far = {"epochs": 1, "events": 1_234, "ms": 500, "waiting": None, "unpublished": 2}
    found = {
        "parts": {"driver": "working"},
        "drift": far,
        "open_transactions": [OpenTransaction("flights.events", 1, 57, 21)._asdict()],
        "alerts": [plain(one) for one in alerts],
    }
    return all_of(
        running(status_verb),
        put(status_verb, _view=view, _published="g1-local-00000000:1", read_progress=found, _warnings=[HOSTILE]),
        put(status_verb, commit_stream=answering(milestones=records.STREAM)),
    )


STREAM = answering(milestones=records.STREAM)
several_jobs = all_of(
    status({"token": "g1-local-00000000:2"}, []),
    put(
        status_verb,
        running_file=answering(stacks=[records.STACK, records.ENDED], api_of_jobs="http://127.0.0.1:3"),
    ),
)


def console_that_ends(monkeypatch: pytest.MonkeyPatch, _folder: Path) -> None:
    """It serves nobody, and the test keeps its own handling of signals."""
    from cutwater.console.service import Console
    from cutwater.operations import service_main

    put(Console, run=None)(monkeypatch, _folder)
    put(service_main, listen=None)(monkeypatch, _folder)


SAMPLES = [
    Sample(
        ["blame", HOSTILE, "0", "--wrong-since", "movements > 5"],
        put(blame, find_job=records.PLACE, run_blame=records.BLAMED),
        code=1,
    ),
    Sample(
        ["diff", "1", "latest"],
        put(diff, find_job=records.PLACE, compared=records.COMPARED_MILESTONES),
        code=1,
    ),
    Sample(["replay"], put(replay, find_job=records.PLACE, run_replay=records.REPLAYED), code=1),
    Sample(["config", "show"], nothing),
    Sample(["console", "--port", "0"], console_that_ends),
    Sample(
        ["dead-letters", "list"],
        all_of(running(rejected_events), put(rejected_events, dead_letters=listed(records.LETTERS))),
    ),
    Sample(
        ["dead-letters", "replay", "--dry-run"],
        all_of(running(rejected_events), put(rejected_events, dead_letters=listed(records.LETTERS))),
    ),
    Sample(["demo-regions"], demo_regions),
    Sample(["doctor"], put(doctor, findings_of=records.FINDINGS, cluster_for=None), code=1),
    Sample(["down"], nothing),
    Sample(["down", "--dry-run"], nothing),
    Sample(["export", str(JOB_FILE), "--out", "{}"], put(export, pyarrow=None, _write_export=records.WRITTEN)),
    Sample(["failover", str(JOB_FILE)], going_on(planned=False)),
    Sample(
        ["forks", "list", str(JOB_FILE)],
        put(forks, _make_forking=(records.SETTINGS, answering(forks=records.FORKS))),
    ),
    Sample(
        ["forks", "decide", str(JOB_FILE), "--keep", str(OTHER), "--reason", "readers"],
        put(forks, _make_forking=(records.SETTINGS, answering(decide=records.DECISION))),
    ),
    Sample(
        ["forks", "loss", str(JOB_FILE)],
        put(forks, _make_forking=(records.SETTINGS, answering(loss=(records.FORKS[0], records.LOSS)))),
    ),
    Sample(["canary", "start", "--dry-run"], canaries()),
    Sample(["canary", "status"], canaries(), code=1),
    Sample(["canary", "promote", str(OTHER), "--dry-run"], canaries()),
    Sample(["canary", "drop", str(OTHER), "--dry-run"], canaries()),
    Sample(["generation", "start", "--dry-run"], claims()),
    Sample(["generation", "promote", str(OTHER), "--dry-run"], claims()),
    Sample(["generation", "abort", str(OTHER), "--dry-run"], claims()),
    Sample(["generation", "hold", str(OTHER), "--dry-run"], claims()),
    Sample(["generation", "schedule", str(OTHER), "--yield", "5s", "--dry-run"], claims()),
    Sample(["generation", "release", str(OTHER), "--dry-run"], claims()),
    Sample(["generation", "job-file", str(OTHER)], claims()),
    Sample(["generation", "list"], claims()),
    Sample(["generation", "prune", "--dry-run"], pruning),
    Sample(["rollback", "--to", "g1-local-00000000:1", "--dry-run"], claims(again=True)),
    Sample(["rollback", "--to", "g1-local-00000000:1", "--diff"], claims(again=True), code=1),
    Sample(
        ["distinct", "ticks", "--of", HOSTILE, "--and", "東京@/"],
        all_of(running(distinct), put(distinct, ask=records.DISTINCT)),
    ),
    Sample(
        ["get", HOSTILE],
        all_of(
            running(get),
            put(get, ask={"key": HOSTILE, "milestone": records.SHOWN, "rows": records.ROWS, "next_from": None}),
        ),
    ),
    Sample(["audit"], put(audit, find_job=records.PLACE, read_audit=AuditRecords(records.AUDIT))),
    Sample(["cadence"], put(cadence, find_job=records.PLACE, read_history=records.DECIDED)),
    Sample(["history"], put(history, find_job=records.PLACE, read_history=records.STARTS)),
    Sample(["hot-keys"], all_of(running(hot_keys), heating)),
    Sample(["incident", "--out", "{}/incident.zip"], gathering),
    Sample(["init", "--from-topic", "orders", "--out", "{}/orders.yaml"], initialising),
    Sample(["late", "list"], all_of(running(late_events), put(late_events, late_pairs=listed(records.LATE)))),
    Sample(
        ["late", "replay", "--dry-run"],
        all_of(claims(), put(late_events, find_job=records.PLACE, plan_late_replay=records.LATE_REPLAY)),
        code=1,
    ),
    Sample(["lineage"], put(lineage, find_job=records.READER, lineage_of=records.LINEAGE, commit_stream=STREAM)),
    Sample(
        ["milestones"],
        all_of(running(milestones), put(milestones, commit_stream=answering(milestones=records.STREAM))),
    ),
    Sample(
        ["mirror", "status", str(JOB_FILE), "--origin", "us"],
        all_of(
            _place_of_mirror(),
            put(mirror, mirror_topics=answering(positions=records.positions(records_mirrored()))),
        ),
    ),
    Sample(["mirror", "resync", str(JOB_FILE), "--topic", "flights.events", "--yes"], resyncing()),
    Sample(["mirror", "resync", str(JOB_FILE), "--topic", "flights.events", "--dry-run"], resyncing()),
    Sample(["mirror", "resync", str(JOB_FILE), "--topic", "flights.events", "--withdraw"], resyncing()),
    Sample(
        ["mirror", "resync", str(JOB_FILE), "--topic", "flights.events", "--from-snapshot", "--dry-run"],
        from_a_snapshot,
    ),
    Sample(["plan", str(JOB_FILE), "--mirror-of", "us"], nothing),
    Sample(["size", str(JOB_FILE), "--mirror", "--explain"], nothing),
    Sample(["calibrate", "--out", "{}/machine.yaml"], measuring),
    Sample(["policy", "check", str(JOB_FILE), "--policy", "{}/policy.yaml"], ruling, code=1),
    Sample(["prepare", str(JOB_FILE)], put(prepare, job_topics=answering(prepare=[HOSTILE]))),
    Sample(["produce", "/dev/null"], producing),
    Sample(["load", "--zipf", "1", "--late", "0.1"], loading),
    Sample(["chaos", "plan.yaml"], breaking, code=1),
    Sample(["prune", "--dry-run"], pruning_streams),
    Sample(["regions", str(JOB_FILE)], put(regions, replicas_of=records.SAFE)),
    Sample(
        ["release", str(JOB_FILE), "--to", "eu", "--dry-run"],
        put(failover, releasing=Releasing(records.RELEASE, False, [OTHER])),
    ),
    Sample(["restore", str(JOB_FILE), "--dry-run"], restoring()),
    Sample(["schemas", "check"], nothing),
    Sample(["schemas", "fetch", "orders-value", "--into", "{}"], fetching),
    Sample(["schemas", "register", str(JOB_FILE)], registering),
    Sample(["schemas", "show", str(JOB_FILE)], nothing),
    Sample(["skew", "show"], spreading()),
    Sample(["skew", "plan"], spreading()),
    Sample(["skew", "spread", HOSTILE, "--over", "3", "--dry-run"], spreading()),
    Sample(["skew", "unspread", HOSTILE, "--dry-run"], spreading()),
    Sample(["snapshots", "create"], storing()),
    Sample(["snapshots", "list"], storing(), code=1),
    Sample(["snapshots", "prune", "--dry-run"], storing(), code=1),
    Sample(["snapshots", "verify"], storing(), code=1),
    Sample(["status"], status({"detail": f"the API does not answer: {HOSTILE}"}, [records.ALERT]), code=1),
    Sample(["status"], status({"token": "g1-local-00000000:2"}, [])),
    Sample(["status"], several_jobs, code=1),
    Sample(["switchover", str(JOB_FILE)], going_on(planned=True)),
    Sample(["tail"], put(tail, find_job=records.PLACE, committed=[records.CHANGES]), lines=True),
    Sample(["up", str(JOB_FILE), "--detach"], put(up, _start_detached=[records.STACK])),
    Sample(
        ["up", str(JOB_FILE), str(JOB_FILE), "--detach"], put(up, _start_detached=[records.STACK, records.ENDED])
    ),
    Sample(
        ["verify"],
        put(verify, find_job=records.PLACE, _request=None, run_verification=records.RESULT, exit_code=1),
        code=1,
    ),
    Sample(
        ["verify", str(JOB_FILE), "--region", "us"],
        put(
            verify_regions,
            request=SimpleNamespace(
                origin=SimpleNamespace(region="us"), own=SimpleNamespace(region="eu"), limit=20, at=None
            ),
            compare=records.COMPARED,
            newest_common=None,
        ),
        code=1,
    ),
]
