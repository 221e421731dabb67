"""Every command that changes a job leaves its records on `<job>.audit`, and `cutwater audit` lists them."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from cutwater.adapters.kafka.admin import delete_topics, describe_topics
from cutwater.adapters.kafka.client import make_consumer, read_tail
from cutwater.adapters.kafka.single_record import write_record
from cutwater.adapters.runtime.process_name import user_name
from cutwater.adapters.topics.audit_log import read_audit
from cutwater.core.access.audit_log import BEGUN, DONE, FAILED
from cutwater.core.protocol import topics
from support.cli.commandline import Cli
from support.cli.jsonshapes import parsed
from support.console.sample_job import PLAIN, TOKENS, with_roles
from support.views.changelogs import Sold, Writing, make_job, until
from support.views.rehydrating import running

FIRST = "g1-local-00000000"
MISSING = "g9-local-00000000"


class Asked:
    """A job with two milestones, and commands that are asked of it as processes."""

    def __init__(self, cluster: Any, folder: Path) -> None:
        job, self.file = make_job(folder)
        self.writing, self.cluster, self.name = Writing(cluster, job), cluster, job.name
        self.writing.epoch([Sold("a", 1, 5)])
        self.writing.epoch([Sold("b", 1, 5)])
        self.cli = Cli(folder)
        self._on = (str(self.file), "--bootstrap-servers", cluster.bootstrap)

    def run(self, *verb: str, **env: str) -> Any:
        return self.cli.run(*verb, *self._on, **env)

    def json(self, *verb: str, **env: str) -> Any:
        done = self.run(*verb, "--json", **env)
        assert done.returncode == 0, done.stderr
        return parsed([*verb], done.stdout)

    def told(self) -> list[tuple[str, str, str]]:
        return [(one["action"], one["object"], one["outcome"]) for one in self.json("audit")]


@pytest.fixture
def job(broker: Any, tmp_path: Path) -> Asked:
    return Asked(broker.cluster, tmp_path)


def test_each_command_leaves_its_record(job: Asked) -> None:
    """With who, what, on which object, when, and what came of it; a dry run and a list leave none."""
    assert job.told() == []
    made = job.json("generation", "start", "--partitions", "6", "--reason", "the plan")["generation"]
    assert job.run("generation", "promote", made, "--dry-run").returncode == 0
    assert job.run("generation", "promote", MISSING).returncode == 2
    assert job.run("generation", "abort", made, "--reason", "the other plan").returncode == 0
    back = f"{FIRST}:1"
    rolled = job.json("rollback", "--to", back, "--wait", "0")["generation"]
    assert job.run("generation", "promote", rolled, "--wait", "0").returncode == 0
    assert job.run("generation", "list").returncode == 0
    assert job.run("prune").returncode == 0
    assert job.run("prepare", "--source").returncode == 0
    assert job.told() == [
        ("generation start", "the newest milestone", DONE),
        ("generation promote", MISSING, FAILED),
        ("generation abort", made, DONE),
        ("rollback", back, DONE),
        ("generation promote", rolled, DONE),
        ("prune", job.name, DONE),
        ("prepare", job.name, DONE),
    ]
    started, failed = job.json("audit")[:2]
    assert (started["actor"], started["role"], started["via"]) == (user_name(), "", "cli")
    assert started["arguments"] == {"partitions": "6", "reason": "the plan"}
    assert started["detail"] == f"{made} is claimed"
    assert started["begun_ms"] <= started["ended_ms"] <= failed["begun_ms"]
    assert f"{MISSING}" in failed["detail"]
    assert [one["action"] for one in job.json("audit", "--limit", "1")] == ["prepare"]
    assert len(job.json("audit", "--since", "1h", "--action", "rollback", "--who", user_name())) == 1
    assert job.json("audit", "--who", "nobody") == []
    assert "generation abort" in job.run("audit").stdout


def test_a_command_that_is_killed_leaves_what_it_began(job: Asked, tmp_path: Path) -> None:
    """Its record is written before anything is done, so nobody claims without a trace."""
    mark = tmp_path / "died"
    done = job.run("generation", "start", CUTWATER_CRASH_POINT="claim-written", CUTWATER_CRASH_MARK=str(mark))
    assert done.returncode == -signal.SIGKILL
    assert job.told() == [("generation start", "the newest milestone", BEGUN)]
    assert "begun, no outcome" in job.run("audit", "--wide").stdout


@pytest.mark.slow
def test_a_role_that_is_too_low_does_nothing(job: Asked) -> None:
    """Exit code 2, no claim and no record; with the role the record has the token's name."""
    settings = with_roles()
    roles = {"CUTWATER_TOKENS": settings.tokens.get_secret_value()}
    for token in (TOKENS["viewer"], PLAIN):
        refused = job.run("generation", "start", CUTWATER_API_TOKEN=token, **roles)
        assert refused.returncode == 2
        assert "needs the role operator" in refused.stderr
    assert job.told() == []
    made = job.json("generation", "start", CUTWATER_API_TOKEN=TOKENS["operator"], **roles)["generation"]
    owned = job.run("generation", "abort", made, CUTWATER_API_TOKEN=TOKENS["operator"], **roles)
    assert "needs the role owner, and my-operator is operator" in owned.stderr
    assert job.run("generation", "abort", made, CUTWATER_API_TOKEN=TOKENS["owner"], **roles).returncode == 0
    listed = job.json("audit", CUTWATER_API_TOKEN=TOKENS["viewer"], **roles)
    assert [(one["actor"], one["role"]) for one in listed] == [("my-operator", "operator"), ("my-owner", "owner")]
    assert not [one for one in TOKENS.values() if one in str(listed)]


@pytest.mark.slow
def test_a_job_of_an_earlier_version_gets_its_log(job: Asked) -> None:
    """With the settings that a new job's has."""
    topic = topics.audit(job.name)
    made = describe_topics(job.cluster, [topic])[topic]
    delete_topics(job.cluster, [topic])
    assert job.run("audit").returncode == 2
    job.json("generation", "start")
    assert job.told() == [("generation start", "the newest milestone", DONE)]
    assert describe_topics(job.cluster, [topic])[topic].config == made.config


@pytest.mark.slow
def test_snapshots_by_role_and_on_the_log(job: Asked, tmp_path: Path) -> None:
    """The API refuses a viewer's token, and the command of an operator leaves its record."""
    store, named = str(tmp_path / "store"), with_roles().tokens.get_secret_value()
    env = {"CUTWATER_SNAPSHOTS": store, "CUTWATER_API_TOKEN": PLAIN, "CUTWATER_TOKENS": named}
    with running(job.cluster, job.file, tmp_path / "view", **env) as view:
        until(lambda: view.answers() and view.shown() == 2, "the milestone")
        url = f"http://127.0.0.1:{view.port}"
        taken = {
            role: httpx.post(f"{url}/v1/snapshots", headers={"Authorization": f"Bearer {token}"}, timeout=20)
            for role, token in {**TOKENS, "none": PLAIN, "unknown": "no-token-of-anybody"}.items()
        }
        assert {role: one.status_code for role, one in taken.items()} == {
            **{"viewer": 403, "operator": 202, "owner": 202, "none": 202, "unknown": 401}
        }
        for token in (*TOKENS.values(), PLAIN):
            reads = httpx.get(f"{url}/v1/state/a", headers={"Authorization": f"Bearer {token}"}, timeout=20)
            assert reads.status_code == 200
        there = {**env, "CUTWATER_BOOTSTRAP_SERVERS": job.cluster.bootstrap}
        words = ("snapshots", "create", str(job.file), "--api-url", url, "--wait", "60")
        for role in ("viewer", "operator"):
            done = job.cli.run(*words, **{**there, "CUTWATER_API_TOKEN": TOKENS[role]})
            assert done.returncode == (2 if role == "viewer" else 0), done.stderr
        assert not [one for one in (*TOKENS.values(), PLAIN, named) if one in view.log.read_text()]
    assert job.told() == [("snapshots create", job.name, DONE)]


@pytest.mark.slow
def test_brokers_that_do_not_answer_hold_up_little(job: Asked) -> None:
    """The command fails as ever, and says which record is missing."""
    done = job.cli.run("prune", str(job.file), "--bootstrap-servers", "127.0.0.1:1")
    assert done.returncode == 4
    assert f"missing on the audit log of {job.name}" in done.stderr
    assert '"action": "prune"' in done.stderr


def test_what_is_on_the_topic_is_what_is_read(job: Asked) -> None:
    """Two records for an action, without keys; `read_audit` returns the newest ones."""
    job.json("generation", "start")
    consumer = make_consumer(job.cluster)
    values = read_tail(consumer, topics.audit(job.name), 0, lambda found: len(found) >= 2)
    consumer.close()
    assert len(values) == 2
    first, last = read_audit(job.cluster, job.name, 10).readable
    assert (first.outcome, last.outcome, first.id) == (BEGUN, DONE, last.id)
    assert read_audit(job.cluster, job.name, 1) == ([last], 0)


def test_a_record_of_a_newer_version_hides_no_other(job: Asked) -> None:
    """It is counted on stderr, so that standard output stays JSON."""
    job.json("generation", "start")
    write_record(job.cluster, topics.audit(job.name), b"of a schema that nobody knows", 10)
    done = job.run("audit", "--json")
    assert [one["action"] for one in json.loads(done.stdout)] == ["generation start"]
    assert "1 record(s) of the audit log cannot be read" in done.stderr
