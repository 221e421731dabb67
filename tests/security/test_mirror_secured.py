"""A mirror and its operator, and an origin that lets in only whom it knows: TLS, certificates, users."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.config.settings import environment, load_settings
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.topics.commit_stream import release
from cutwater.adapters.topics.mirror_topics import has_mirror
from cutwater.core.checks import acls
from cutwater.core.checks.acls import MIRROR, MIRROR_TOOLS
from cutwater.core.errors import FencedError, UsageError
from cutwater.core.protocol import topics
from support.kafka.granting import create, planned
from support.kafka.secured_broker import Secured, Start
from support.regions.mirroring import ORIGIN, Events, arrivals, environment_of, process, require_held
from support.views.changelogs import Sold, Writing, make_job, until

KEY_PASSWORD = "key-password-that-must-not-show"
PAGE = Path(__file__).parents[2] / "docs" / "FAILOVER.md"
GIVEN_UP = re.compile(r"^\| the other region, for `switchover` \| (.+) \| (.+) \| (.+) \|$", re.MULTILINE)
NAMED = re.compile(r"`<job>([^`]+)`( \(prefixed\))?")
WRONG = "a-wrong-password-that-must-not-show"
USERS = {MIRROR: "mirror", MIRROR_TOOLS: "operator"}


@pytest.fixture(scope="module")
def there(start_secured: Start) -> Secured:
    """The origin's: certificates on both sides, encrypted keys, users with passwords and just their rights."""
    return start_secured("SASL_SSL", True, KEY_PASSWORD)


class Stage:
    """A job in the origin, and a mirror of it in a region of brokers without any security."""

    def __init__(self, own: Cluster, there: Secured, folder: Path) -> None:
        self.own, self.folder = own, folder
        self.job, self.path = make_job(folder)
        listed = [one.plain() for one in acls.origin_mirror_acls(self.job.name, self.job.topic)]
        for service, user in USERS.items():
            rows = [one for one in listed if one["service"] == service]
            create(there.cluster("admin"), planned(user, rows))
        self.mirrors, self.operates = (there.cluster(user) for user in USERS.values())
        self.writing = Writing(there.cluster("admin"), self.job)
        self.events = Events(self.writing)
        self.log = folder / "mirror.log"
        self.said = ""
        """By the verbs."""

    def epoch(self, number: int) -> int:
        self.events.produce(9)
        return self.writing.epoch([Sold("a", 1, number)], source_cut=self.events.cut()).sequence

    def mirror(self, origin: Cluster | None = None) -> subprocess.Popen[bytes]:
        return process(self.own, origin or self.mirrors, self.path, self.log)

    def call(self, *words: str, origin: Cluster | None = None) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "cutwater.cli.main", words[0], *words[1:]],
            env=environment_of(self.own, origin or self.operates) | {"NO_COLOR": "1", "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        self.said += done.stdout + done.stderr
        return done

    def arrived(self, sequence: int) -> bool:
        here = has_mirror(self.own, self.job.name)
        return here and any(one.sequence >= sequence for one in arrivals(self.own, self.job))

    def leaks(self, *more: str) -> list[str]:
        """Secrets that stand in a log or were printed."""
        security = self.mirrors.security
        key = Path(security.key_file).read_text(encoding="utf-8").splitlines()[1:-1]
        told = self.log.read_text(encoding="utf-8") + self.said
        passwords = (security.password, self.operates.security.password, KEY_PASSWORD)
        return [one for one in (*passwords, *key, *more) if one in told]


@pytest.fixture
def stage(broker: Any, there: Secured, tmp_path: Path) -> Iterator[Stage]:
    made = Stage(broker.cluster, there, tmp_path)
    yield made
    made.writing.close()


@pytest.mark.slow
def test_an_origin_with_tls_and_users_is_mirrored_looked_at_and_left(stage: Stage) -> None:
    """Copied and announced, with the rights of docs/SECURITY.md; how far behind is asked there."""
    running = stage.mirror()
    try:
        for number in (1, 2):
            last = stage.epoch(number)
            until(lambda last=last: stage.arrived(last), lambda last=last: f"{last}: {stage.log.read_text()}")
        shown = stage.call("mirror", "status", str(stage.path), "--json")
        topics = {one["topic"] for one in json.loads(shown.stdout)["partitions"]}
        assert topics >= {stage.job.topic, stage.writing.topic}
        (replica,) = json.loads(stage.call("regions", str(stage.path), "--json").stdout)["replicas"]
        assert (replica["milestones"], replica["records"]) == (0, 0), "the origin was asked"
        compared = stage.call("verify", str(stage.path), "--region", ORIGIN)
        assert compared.returncode == 0, compared.stderr
    finally:
        running.kill()
        running.wait(20)
    for one in arrivals(stage.own, stage.job):
        require_held(stage.writing, stage.own, one)
    stage.epoch(3)
    words = ("failover", str(stage.path), "--force", "--json")
    planned_ = json.loads(stage.call(*words, "--dry-run").stdout)
    done = stage.call(*words, "--wait", "0")
    assert done.returncode == 0, done.stderr
    assert [one["generation"][:9] for one in (planned_, json.loads(done.stdout))] == ["g2-there-"] * 2
    listed = stage.call("forks", "list", str(stage.path), "--json")
    (fork,) = json.loads(listed.stdout)["forks"]
    assert (fork["asked"], fork["milestones"], fork["parent"]) == (True, 1, f"{stage.writing.generation}:2")
    assert json.loads(stage.call("forks", "loss", str(stage.path), "--json").stdout)["events"]["missing"] == 9
    assert "Traceback" not in stage.said
    assert stage.leaks() == []


def documented(job: str) -> Iterator[dict[str, Any]]:
    """The rights in the other region that the page asks for a switchover."""
    for kind, names, operations in GIVEN_UP.findall(PAGE.read_text(encoding="utf-8")):
        for name, prefixed in NAMED.findall(names):
            row = {"resource": kind.replace(" ", "-"), "name": job + name, "operations": operations.split(", ")}
            yield row | {"pattern": "prefixed" if prefixed else "literal"}


@pytest.mark.slow
def test_a_switchover_takes_the_job_from_an_origin_with_tls_and_users(stage: Stage, there: Secured) -> None:
    """Refused without the rights that the page lists, with nothing done; with them the driver there is fenced."""
    job, admin = stage.job.name, there.cluster("admin")
    driver = TransactionalWriter(admin, topics.driver_id(job, stage.writing.generation))
    driver.initialise()
    running = stage.mirror()
    try:
        last = stage.epoch(1)
        until(lambda: stage.arrived(last), lambda: f"the arrival: {stage.log.read_text()}")
        words = ("switchover", str(stage.path), "--json", "--wait", "0")
        refused = stage.call(*words)
        assert (refused.returncode, "may not" in refused.stderr) == (UsageError.exit_code, True), refused.stderr
        assert release(admin, topics.milestones(job)) is None
        create(admin, planned(USERS[MIRROR_TOOLS], documented(job)))
        until(lambda: stage.call(*words).returncode == 0, f"the release's arrival: {stage.said[-2_000:]}")
    finally:
        running.kill()
        running.wait(20)
    released = release(admin, topics.milestones(job))
    assert released is not None
    assert released.sequence == last
    with pytest.raises(FencedError):
        driver.write(topics.barriers(job), [b"late"])
    assert "Traceback" not in stage.said
    assert stage.leaks() == []


@pytest.mark.slow
def test_a_wrong_secret_of_the_origins_is_named_as_such(stage: Stage) -> None:
    """Exit code 2, and the setting of the origin's, not that of the own brokers; in no log what was given."""
    last = stage.epoch(1)
    running = stage.mirror()
    until(lambda: stage.arrived(last), "the arrival")
    running.kill()
    running.wait(20)
    bad = replace(stage.mirrors, security=replace(stage.mirrors.security, password=WRONG))
    assert stage.mirror(bad).wait(120) == UsageError.exit_code
    named = "check CUTWATER_ORIGIN_KAFKA_SASL_USERNAME and CUTWATER_ORIGIN_KAFKA_SASL_PASSWORD"
    assert named in stage.log.read_text()
    asked = stage.call("regions", str(stage.path), "--json", origin=bad)
    (replica,) = json.loads(asked.stdout)["replicas"]
    assert (asked.returncode, replica["records"]) == (0, None)
    assert f"{ORIGIN} is not queried: " in asked.stderr
    assert named in asked.stderr
    plain = replace(stage.mirrors, security=replace(stage.mirrors.security, certificate_file="", key_file=""))
    assert stage.mirror(plain).wait(120) == UsageError.exit_code
    assert "check CUTWATER_ORIGIN_KAFKA_SSL_CERTIFICATE_FILE" in stage.log.read_text()
    assert stage.leaks(WRONG) == []


@pytest.mark.slow
def test_settings_that_cannot_work_are_named_as_the_origins(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anybody is asked."""
    for name, value in environment(stage.mirrors).items():
        monkeypatch.setenv(name.replace("CUTWATER_", "CUTWATER_ORIGIN_"), value)
    assert load_settings().origin_cluster == stage.mirrors
    monkeypatch.setenv("CUTWATER_ORIGIN_KAFKA_SSL_KEY_FILE", "")
    with pytest.raises(UsageError, match="CUTWATER_ORIGIN_KAFKA_SSL_CERTIFICATE_FILE and CUTWATER_ORIGIN_KAFKA_"):
        _ = load_settings().origin_cluster
