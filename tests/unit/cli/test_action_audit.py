"""Every verb that changes something asks for a role and leaves its records; every other one leaves none."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner, Result

from cutwater.cli import action_audit
from cutwater.cli.main import app
from cutwater.cli.regions import mirror
from cutwater.cli.verbs import VERBS
from cutwater.core.access import actions
from cutwater.core.access.actions import ACTIONS, Action
from cutwater.core.access.audit_log import AuditRecord
from cutwater.core.errors import UnavailableError
from support.cli.verb_records import JOB_FILE, OTHER
from support.cli.verb_samples import SAMPLES, Sample, keep_audit
from support.console.sample_job import PLAIN, TOKENS, with_roles
from support.pages import ROOT

CHANGES: dict[str, list[Action]] = {
    "canary drop": [actions.DROP_CANARY],
    "canary promote": [actions.PROMOTE_CANARY],
    "canary start": [actions.START_CANARY],
    "chaos": [actions.CHAOS],
    "dead-letters replay": [actions.REPLAY_LETTERS],
    "down": [actions.DOWN, actions.DELETE],
    "failover": [actions.FAILOVER],
    "forks decide": [actions.DECIDE_FORK],
    "generation abort": [actions.DROP],
    "generation hold": [actions.HOLD],
    "generation promote": [actions.PROMOTE],
    "generation prune": [actions.PRUNE_GENERATIONS],
    "generation release": [actions.RELEASE_HOLD],
    "generation schedule": [actions.SCHEDULE],
    "generation start": [actions.START],
    "late replay": [actions.LATE_REPLAY],
    "mirror pause": [actions.PAUSE_MIRROR],
    "mirror resume": [actions.RESUME_MIRROR],
    "mirror resync": [actions.RESYNC, actions.WITHDRAW_RESYNC],
    "prepare": [actions.PREPARE],
    "prune": [actions.PRUNE],
    "release": [actions.RELEASE],
    "rollback": [actions.ROLLBACK],
    "schemas register": [actions.REGISTER],
    "skew spread": [actions.SPREAD],
    "skew unspread": [actions.UNSPREAD],
    "snapshots create": [actions.SNAPSHOT],
    "snapshots prune": [actions.PRUNE_SNAPSHOTS],
    "switchover": [actions.SWITCHOVER, actions.RELEASE],
    "up": [actions.UP],
    "verify": [actions.REPAIR],
}
"""By verb the actions that it may be."""
READS = {
    *("blame", "cadence", "canary status", "diff", "hot-keys"),
    *("audit", "config show", "console", "dead-letters list", "distinct", "doctor", "forks list", "forks loss"),
    *(
        "generation job-file",
        "generation list",
        "get",
        "history",
        "late list",
        "lineage",
        "milestones",
        "mirror status",
        "plan",
    ),
    *("policy check", "regions", "schemas check", "schemas show", "size", "snapshots list", "snapshots verify"),
    *("skew plan", "skew show", "status", "tail"),
}
OWN_FILES = {
    "calibrate",
    "demo",
    "demo-regions",
    "export",
    "incident",
    "init",
    "replay",
    "restore",
    "schemas fetch",
}
"""Verbs that write files of the caller's, or run a job of their own."""
EVENTS = {"load", "produce"}
"""Verbs that send events, as producers do."""
CODE = ROOT / "services/cutwater/cli"
LEAVE = {
    "chaos plan.yaml": ["chaos"],
    f"forks decide {JOB_FILE}": ["forks decide"],
    f"mirror resync {JOB_FILE} --topic flights.events --yes": ["mirror resync"],
    f"mirror resync {JOB_FILE} --topic flights.events --withdraw": ["mirror resync --withdraw"],
    f"prepare {JOB_FILE}": ["prepare"],
    f"switchover {JOB_FILE}": ["switchover"],
}
"""By the beginning of a sample's words the actions that it leaves. Its failover was done by an earlier try, and no
brokers are named for its snapshot."""


def verbs() -> dict[str, Any]:
    """Every verb of the command line, by its words."""
    found, waiting = {}, [("", typer.main.get_command(app))]
    while waiting:
        name, verb = waiting.pop()
        inner = getattr(verb, "commands", None)
        if inner is None:
            found[name] = verb
        else:
            waiting += [(f"{name} {one}".strip(), made) for one, made in inner.items()]
    return found


def test_every_verb_is_known_to_change_something_or_not() -> None:
    """A new verb is put into one of these, and a verb with a dry run changes something."""
    every = verbs()
    groups = [set(CHANGES), READS, OWN_FILES, EVENTS]
    assert set(every) == set().union(*groups)
    assert sum(map(len, groups)) == len(every)
    dry = {name for name, one in every.items() if any("--dry-run" in option.opts for option in one.params)}
    assert dry - set(CHANGES) <= OWN_FILES
    assert {one for some in CHANGES.values() for one in some} == set(ACTIONS)


@pytest.mark.parametrize("verb", CHANGES)
def test_the_verbs_module_records_its_actions(verb: str) -> None:
    """By the names in calls of `audit_action` in the modules of its folder."""
    names = {id(one): name for name, one in vars(actions).items() if isinstance(one, Action)}
    folder = CODE / VERBS[verb.split(maxsplit=1)[0]][0].partition(".")[0]
    recorded = {name for file in folder.glob("*.py") for name in _recorded(file)}
    assert {names[id(one)] for one in CHANGES[verb]} <= recorded
    assert import_module(f"cutwater.cli.{VERBS[verb.split(maxsplit=1)[0]][0]}")


def _recorded(file: Path) -> Iterator[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("audit_action", "_stop"):
            yield from (one.id for arg in node.args for one in ast.walk(arg) if isinstance(one, ast.Name))


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Without settings of the caller's, in the project's folder."""
    import os

    for name in [name for name in os.environ if name.startswith("CUTWATER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CUTWATER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(ROOT)
    return monkeypatch


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda one: " ".join(one.words)[:60])
def test_a_verb_leaves_the_records_of_its_action_and_a_dry_run_none(
    sample: Sample, tmp_path: Path, environment: pytest.MonkeyPatch
) -> None:
    kept = keep_audit(environment)
    sample.patch(environment, tmp_path)
    words = [word.replace("{}", str(tmp_path)) for word in sample.words]
    CliRunner().invoke(app, words, catch_exceptions=False)
    said = " ".join(sample.words)
    wanted = next((some for begin, some in LEAVE.items() if said.startswith(begin)), [])
    assert sorted({one.action for one in kept}) == wanted
    for one in kept:
        assert one.job == "flights"
        assert one.object
        assert one.via == "cli"
        assert "@" in one.actor
    # A log that the action itself makes has no beginning.
    outcomes = [one.outcome for one in kept]
    assert outcomes == (["done"] if wanted == ["prepare"] else ["begun", "done"] if wanted else [])


Call = Callable[..., Result]


@pytest.fixture
def pause(environment: pytest.MonkeyPatch) -> Call:
    """`mirror pause` or `resync` with a token, on a mirror that obeys."""
    obeys = SimpleNamespace(has_mirror=lambda *_args: True)
    environment.setattr(mirror, "mirror_topics", obeys)
    environment.setattr(mirror, "control_mirror", lambda *_args: None)
    environment.setattr(mirror, "resyncing", SimpleNamespace(withdraw=lambda *_args: None))

    def call(*words: str, token: str = "", roles: bool = True) -> Result:
        settings = with_roles()
        if roles:
            environment.setenv("CUTWATER_TOKENS", settings.tokens.get_secret_value())
        if token:
            environment.setenv("CUTWATER_API_TOKEN", token)
        return CliRunner().invoke(app, ["mirror", *words, str(JOB_FILE), "--origin", "us"])

    return call


@pytest.mark.parametrize(("role", "code"), [("viewer", 2), ("operator", 0), ("owner", 0)])
def test_a_command_acts_as_the_token_that_it_has(
    pause: Call, environment: pytest.MonkeyPatch, role: str, code: int
) -> None:
    """The record has the token's name and role; a refused command does nothing, and leaves no record."""
    kept = keep_audit(environment)
    done = pause("pause", token=TOKENS[role])
    assert done.exit_code == code, done.output
    assert [(one.actor, one.role, one.object) for one in kept] == [(f"my-{role}", role, "us")] * (
        2 if not code else 0
    )
    if code:
        assert "'mirror pause' needs the role operator, and my-viewer is viewer" in done.stderr
    assert TOKENS[role] not in done.output


@pytest.mark.parametrize("token", [PLAIN, "another-unknown-token"])
def test_with_roles_a_token_without_one_changes_nothing(
    pause: Call, environment: pytest.MonkeyPatch, token: str
) -> None:
    kept = keep_audit(environment)
    done = pause("resume", token=token)
    assert (done.exit_code, kept) == (2, [])
    assert "this token has none" in done.stderr


def test_who_starts_the_services_has_their_token(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`prepare` and `up` run with the token of the services, which needs no role; a viewer's does not do."""
    kept = keep_audit(environment)
    [sample] = [one for one in SAMPLES if one.words[0] == "prepare"]
    sample.patch(environment, tmp_path)
    environment.setenv("CUTWATER_TOKENS", with_roles().tokens.get_secret_value())
    for token, code in ((PLAIN, 0), (TOKENS["viewer"], 2), (TOKENS["operator"], 0)):
        environment.setenv("CUTWATER_API_TOKEN", token)
        assert CliRunner().invoke(app, sample.words).exit_code == code
    assert [one.role for one in kept] == ["", "operator"]


def test_roles_need_a_token_of_the_services(pause: Call) -> None:
    done = pause("pause")
    assert done.exit_code == 2
    assert "CUTWATER_API_TOKEN is not" in done.stderr


def test_without_roles_every_user_may_act_as_before(pause: Call, environment: pytest.MonkeyPatch) -> None:
    kept = keep_audit(environment)
    assert pause("pause", roles=False).exit_code == 0
    assert {one.role for one in kept} == {""}


def test_a_record_that_cannot_be_written_is_printed(pause: Call, environment: pytest.MonkeyPatch) -> None:
    """The action is done, standard output is as ever, and the record is on standard error, whole."""

    def deaf(_one: AuditRecord) -> None:
        raise UnavailableError("the brokers do not answer")

    environment.setattr(action_audit, "AuditLog", lambda *_args: SimpleNamespace(write=deaf))
    done = pause("pause", roles=False)
    assert (done.exit_code, done.stdout) == (0, "the mirror of us is paused\n")
    warnings = done.stderr.splitlines()
    assert [one for one in warnings if "missing on the audit log of flights: the brokers do not" in one]
    records = [json.loads(one.removeprefix("its record: ")) for one in warnings if one.startswith("its record: ")]
    assert [(one["action"], one["object"], one["outcome"]) for one in records] == [
        ("mirror pause", "us", "begun"),
        ("mirror pause", "us", "done"),
    ]
    assert str(OTHER) not in done.stderr
