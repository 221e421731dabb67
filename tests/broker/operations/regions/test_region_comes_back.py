"""A region comes back, and its driver and commit-signal ask the other one before they go on: two real brokers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.commit_stream import newest_milestone
from cutwater.commit_signal.signaller import CommitSignal
from cutwater.core.checks import acls
from cutwater.core.errors import FencedError, UnavailableError, UsageError
from cutwater.core.failover.rejoin import RemoteTakeover, ResumeDecision
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.records import Claim
from cutwater.local.machine.ports import free_ports
from cutwater.local.running_file import find
from cutwater.operations.regions.rejoin import LOOK_S, LOOKS, RejoinCheck
from support.harness import wait_until
from support.kafka.links import Linked
from support.kafka.users_broker import users_broker
from support.regions.regional import FIRST, Driver, Regions, Side, claim_of, fenced, two_regions
from support.views.changelogs import Writing, make_job, until

pytestmark = pytest.mark.slow


class _Log:
    """Keeps the warnings."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def info(self, *_args: object, **_named: object) -> None:
        pass

    def warning(self, said: str, **_named: object) -> None:
        self.said.append(said)


SIGNAL, DRIVER = "cutwater.commit_signal", "cutwater_spark.driver"
METRICS = {SIGNAL: "signal", DRIVER: "driver"}


@pytest.fixture
def apart(broker: Any, linked: Linked, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Regions]:
    """`us`, where a job begins, and `eu`, which `us` reaches over a link."""
    linked.link.mend()
    with two_regions(broker.cluster, linked.near, tmp_path, unique("regions")) as made:
        yield made
    linked.link.mend()


def asking(linked: Linked, **more: str) -> dict[str, str]:
    """Settings of `us` that name `eu`. A word of any age is old, unless `more` says else."""
    named = {"ORIGIN_REGION": "eu", "ORIGIN_BOOTSTRAP_SERVERS": linked.far.bootstrap, "FAILOVER_MIN_AGE_S": "0"}
    return {f"CUTWATER_{name}": value for name, value in {**named, **more}.items()}


def start(side: Side, module: str, generation: Generation, env: dict[str, str]) -> subprocess.Popen[bytes]:
    return side.flow.start(module, **side.env(), CUTWATER_GENERATION=str(generation), **env)


def said(side: Side, module: str) -> str:
    return side.flow.log(module).read_text()


def refused(side: Side, module: str, env: dict[str, str]) -> str:
    """It leaves by itself, with the code that nobody restarts; what it said."""
    before = len(said(side, module)) if side.flow.log(module).exists() else 0
    assert start(side, module, FIRST, env).wait(90) == FencedError.exit_code
    return said(side, module)[before:]


def decide(here: Side, there: Side, keep: Generation) -> None:
    words = ["forks", "decide", str(here.flow.job_file), "--keep", str(keep), "--reason", "a test"]
    for _ in range(3):  # it waits for the other region no longer than a person would
        done = here._call(there, words, {})
        if done.returncode != UnavailableError.exit_code:
            break
    assert done.returncode == 0, done.stderr


def test_whose_job_has_gone_on_elsewhere_leaves(apart: Regions, linked: Linked, origin: Cluster) -> None:
    """From the claim on, driver and commit-signal; after the way back their own new generation is not held up."""
    us, eu, env = apart.us, apart.eu, asking(linked)
    first, second = fail_over(apart)
    told = refused(us, SIGNAL, env)
    assert f"{second} was started there from {FIRST}:2, and is not promoted yet" in told
    assert f"'cutwater generation abort {second}'" in told
    claim, driver = claim_of(eu, second), Driver(eu, second)
    signal = eu.signal(second)
    driver.epoch(claim.source_cut, claim.origin_cut)
    eu.await_token(f"{second}:3")
    first.epoch(us.produce(20))  # an epoch that was prepared before the region went away
    told = refused(us, SIGNAL, env)
    assert f"the newest milestone there is {second}:3" in told
    assert "'cutwater switchover --origin eu'" in told
    assert f"{second} was started there from {FIRST}:2" in refused(us, DRIVER, env)
    assert us.tokens()[-1] == f"{FIRST}:2", "nothing was committed"
    stack_refuses(us, env, second)
    lost = RejoinCheck(origin, us.job, "us", "eu", linked.near, 0)  # the brokers of `us` begin with nothing
    with pytest.raises(FencedError, match=f"{second} was started there"):
        lost.check(FIRST)
    with pytest.raises(FencedError, match=f"{second} was started there"):
        lost.check_again(FIRST, _Log())
    anew = RejoinCheck(origin, us.job, "us", "eu", linked.near, 0, f"{FIRST}:0")
    with pytest.raises(FencedError, match=f"{second} was started there"):
        anew.check(FIRST)  # an operator's word is for a region that does not answer
    third = come_home(apart, linked, second, signal)
    # What the line here has taken back holds nobody up.
    wait_said(us, lambda: start(us, SIGNAL, third, env), "ready")


def silent(regions: Regions) -> Driver:
    """`us` has gone silent at its second milestone."""
    us = regions.us
    driver, signal = Driver(us, FIRST), us.signal(FIRST)
    for _ in range(2):
        driver.epoch(us.produce(40))
    us.await_token(f"{FIRST}:2")
    signal.terminate()
    assert signal.wait(30) == 0
    return driver


def fail_over(regions: Regions) -> tuple[Driver, Generation]:
    """And `eu` claims a generation from that."""
    us, eu = regions.us, regions.eu
    driver = silent(regions)
    with eu.mirroring(us):
        eu.await_arrival(us, f"{FIRST}:2")
        told = eu.run(us, "failover", "--force", "--wait", "0")
    return driver, Generation.parse(told["generation"])


def stack(side: Side, env: dict[str, str]) -> subprocess.Popen[bytes]:
    """`cutwater up` on the brokers of the region."""
    command = [sys.executable, "-m", "cutwater.cli.main", "up", str(side.flow.job_file)]
    command += ["--bootstrap-servers", side.cluster.bootstrap, "--data-dir", str(side.flow.folder / "stack")]
    return side.flow.start_command("up", command, **side.env(), **env)


def stack_refuses(side: Side, env: dict[str, str], generation: Generation) -> None:
    """It makes nothing where the job has gone on elsewhere."""
    assert stack(side, env).wait(120) == FencedError.exit_code, said(side, "up")
    assert f"{generation} was started there" in " ".join(said(side, "up").split())


def come_home(regions: Regions, linked: Linked, second: Generation, signal: subprocess.Popen[bytes]) -> Generation:
    """A switchover; the new generation works while the other region is out of reach."""
    us, eu = regions.us, regions.eu
    with us.mirroring(eu):
        us.await_arrival(eu, f"{second}:3")
        third = Generation.parse(us.run(eu, "switchover", "--wait", "0")["generation"])
    assert fenced(signal)
    linked.link.refuses = True
    linked.link.cut()
    claim = claim_of(us, third)
    Driver(us, third).epoch(Cut.of(dict(claim.source_cut)))
    running = start(us, SIGNAL, third, asking(linked))
    us.await_token(f"{third}:3")
    running.terminate()
    assert running.wait(30) == 0
    linked.link.mend()
    return third


def wait_said(side: Side, begin: Callable[[], subprocess.Popen[bytes]], words: str) -> None:
    """A commit-signal that is started says these words; it is ended again."""
    before = len(said(side, SIGNAL))
    running = begin()
    wait_until(lambda: words in said(side, SIGNAL)[before:], f"'{words}': {said(side, SIGNAL)[before:]}", 60)
    running.terminate()
    assert running.wait(30) == 0


def test_an_operators_word_on_the_fork_counts(apart: Regions, linked: Linked) -> None:
    """Decided for the line here it goes on, without any setting; decided again for the other one it leaves."""
    us, eu, env = apart.us, apart.eu, asking(linked)
    first, second = fail_over(apart)
    first.epoch(us.produce(20))
    lives = us.signal(FIRST)  # it names no other region
    us.await_token(f"{FIRST}:3")
    lives.terminate()
    assert lives.wait(30) == 0
    refused(us, SIGNAL, env)
    decide(eu, us, FIRST)
    wait_said(us, lambda: start(us, SIGNAL, FIRST, env), "ready")
    decide(eu, us, second)
    refused(us, SIGNAL, env)


def metric(port: int, of: str = SIGNAL) -> float | None:
    try:
        text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=5).text
    except httpx.HTTPError:
        return None
    found = [one for family in text_string_to_metric_families(text) for one in family.samples]
    return next(one.value for one in found if one.name == f"cutwater_{METRICS[of]}_waiting_for_region")


def test_who_was_silent_waits_for_an_answer(apart: Regions, linked: Linked) -> None:
    """commit-signal and driver, until the other region answers; nothing is committed meanwhile."""
    us, link = apart.us, linked.link
    first = silent(apart)
    first.epoch(us.produce(20))
    link.refuses = True
    link.cut()
    port, drivers = free_ports(2)
    before = len(said(us, SIGNAL))
    running = start(us, SIGNAL, FIRST, asking(linked, SIGNAL_PORT=str(port)))
    wait_until(lambda: f"CUTWATER_GO_ON_BEHIND={FIRST}:2" in said(us, SIGNAL)[before:], "it to wait", 60)
    assert (metric(port), link.refused > 0) == (1, True)
    driver = start(us, DRIVER, FIRST, asking(linked, DRIVER_PORT=str(drivers)))
    wait_until(lambda: "waiting" in (said(us, DRIVER) if us.flow.log(DRIVER).exists() else ""), "the driver", 60)
    assert metric(drivers, DRIVER) == 1
    driver.terminate()
    assert driver.wait(30) == 0, said(us, DRIVER)
    assert us.tokens()[-1] == f"{FIRST}:2", "nothing was committed"
    link.mend()
    us.await_token(f"{FIRST}:3")
    assert "continuing after the wait" in said(us, SIGNAL)[before:]
    assert metric(port) == 0
    running.terminate()
    assert running.wait(30) == 0
    assert said(us, SIGNAL)[before:].count("waiting ") == 1, "it says so rarely"


def test_a_stack_is_ready_while_its_driver_waits(apart: Regions, linked: Linked) -> None:
    """What was committed can be read meanwhile."""
    us, link = apart.us, linked.link
    silent(apart)
    link.refuses = True
    link.cut()
    process = stack(us, asking(linked))
    found = wait_until(lambda: find(us.flow.folder / "stack"), "the stack's file", 60)
    wait_until(lambda: (at := find(us.flow.folder / "stack")) and at.ready, "the stack to be ready", 120)
    told = " ".join(said(us, "up").split())
    assert "driver and commit-signal wait: region eu does not answer" in told
    assert f"CUTWATER_GO_ON_BEHIND={FIRST}:2" in told
    assert httpx.get(f"{found.api_url}/healthz", timeout=5).status_code == 200
    shown = httpx.get(
        f"{found.api_url}/v1/milestone", params={"at_least": f"{FIRST}:2", "wait_ms": 30_000}, timeout=40
    )
    assert shown.json()["token"] == f"{FIRST}:2"
    assert process.poll() is None
    process.terminate()
    assert process.wait(60) == 0
    assert us.tokens()[-1] == f"{FIRST}:2"


def test_who_was_silent_and_is_answered_goes_on(apart: Regions, linked: Linked) -> None:
    """The driver with its Spark, and commit-signal; the other region has a mirror, and no more."""
    us, env = apart.us, asking(linked)
    signal, driver = start(us, SIGNAL, FIRST, env), start(us, DRIVER, FIRST, env)
    us.produce(40)
    first = us.flow.wait_committed()
    driver.kill()
    driver.wait(30)
    us.produce(40)
    driver = start(us, DRIVER, FIRST, env)
    second = us.flow.wait_committed()
    assert (second.attempt, second.sequence > first.sequence) == (2, True)
    for one in (signal, driver):
        one.terminate()
        assert one.wait(60) == 0


def test_who_says_behind_which_milestone_waits_for_nobody(apart: Regions, linked: Linked) -> None:
    """Behind that one only. And whose newest word is young is not held up by a broken link."""
    us, link = apart.us, linked.link
    silent(apart)
    link.refuses = True
    link.cut()
    over = asking(linked, GO_ON_BEHIND=f"{FIRST}:2")
    wait_said(us, lambda: start(us, SIGNAL, FIRST, over), "says to go on")
    young = asking(linked, FAILOVER_MIN_AGE_S="3600")
    wait_said(us, lambda: start(us, SIGNAL, FIRST, young), "continuing without an answer")
    stale = asking(linked, GO_ON_BEHIND=f"{FIRST}:1")
    wait_said(us, lambda: start(us, SIGNAL, FIRST, stale), f"CUTWATER_GO_ON_BEHIND={FIRST}:2")


def test_where_the_job_was_never_gone_on_with_no_topic_is_missed(broker: Any, origin: Any, tmp_path: Path) -> None:
    """Looked for several times where it matters: a broker that is just back may know none."""
    writing = Writing(broker.cluster, make_job(tmp_path)[0])
    writing.epoch([])
    pauses: list[float] = []
    for least_ms, looks in ((0, LOOKS), (10**12, 1)):
        one = RejoinCheck(broker.cluster, writing.job, "local", "eu", origin, least_ms)
        pauses.clear()
        assert one.check(writing.generation, pauses.append) == ResumeDecision(False)
        assert pauses == [LOOK_S] * (looks - 1)
    nothing = RejoinCheck(origin, writing.job, "local", "eu", broker.cluster, 0)
    assert nothing.check(writing.generation) == ResumeDecision(False), "a job that is begun here and now"
    writing.close()


def test_where_nothing_stands_an_answer_is_waited_for(origin: Any, tmp_path: Path) -> None:
    """A cluster that was lost whole looks like one in which a job is begun: only the other region can tell."""
    job, away = make_job(tmp_path)[0], Cluster("127.0.0.1:1")
    asking_nobody = RejoinCheck(origin, job, "us", "eu", away, 90_000, ask_s=0.5)
    found = asking_nobody.check(FIRST)
    assert found.waits
    assert f"CUTWATER_GO_ON_BEHIND={FIRST}:0" in found.why
    over = RejoinCheck(origin, job, "us", "eu", away, 90_000, f"{FIRST}:0", ask_s=0.5)
    assert not over.check(FIRST).waits


def signaller(writing: Writing, returning: RejoinCheck) -> CommitSignal:
    """Of the generation that the job began with."""
    job, begun = writing.job.name, Generation(1, "local")
    return CommitSignal(writing.cluster, job, begun, now_ms, _Log(), returning=returning)


def test_who_waited_reads_the_commit_stream_again_before_it_fences(broker: Any, tmp_path: Path) -> None:
    """Days may have passed, and another generation may be at work: that one is not fenced."""
    writing = Writing(broker.cluster, make_job(tmp_path)[0])
    writing.epoch([])

    class Waits(RejoinCheck):
        def await_answer(self, *_args: Any) -> bool:
            # Its transaction's marker may come after the answer to the commit.
            taken = writing.promote(2)
            until(lambda: newest_milestone(broker.cluster, writing.job.name, taken.generation), "its milestone")
            return True

    waits = Waits(broker.cluster, writing.job, "local", "eu", Cluster("127.0.0.1:1"), 0, ask_s=0.5)
    with pytest.raises(FencedError):
        signaller(writing, waits).run()
    writing.epoch([])  # its signaller works on
    writing.close()


def test_a_signaller_asks_once_more_behind_the_fencing(broker: Any, tmp_path: Path) -> None:
    """What was claimed elsewhere since it asked counts; silence does not hold it up then."""
    writing = Writing(broker.cluster, make_job(tmp_path)[0])
    writing.epoch([])

    class Settled(RejoinCheck):
        def await_answer(self, *_args: Any) -> bool:
            return True

        def _ask(self, *_args: Any) -> RemoteTakeover | None:
            with pytest.raises(FencedError):
                writing.epoch([])  # what the one before could still have written is final
            claim = Claim(writing.job.name, Generation(2, "eu", "5f0c21aa"), b"", 1, 0, "", 0, origin="local")
            return RemoteTakeover(claim, Token(Generation(1, "local"), 1), None)

    one = Settled(broker.cluster, writing.job, "local", "eu", Cluster("127.0.0.1:1"), 0)
    with pytest.raises(FencedError, match="g2-eu-5f0c21aa was started there"):
        signaller(writing, one).run()
    log = _Log()
    RejoinCheck(broker.cluster, writing.job, "local", "eu", Cluster("127.0.0.1:1"), 0, ask_s=0.5).check_again(
        writing.generation, log
    )
    assert log.said == ["the other region did not answer the second query"]
    writing.close()


def test_the_rights_to_ask(broker: Any, tmp_path: Path, kafka_jars: list[Path]) -> None:
    """Those of docs/SECURITY.md are enough; without them nobody is told that all is well."""
    writing = Writing(broker.cluster, make_job(tmp_path)[0])
    writing.epoch([])
    with users_broker(tmp_path / "there", kafka_jars, ["driver", "nobody"]) as there:
        Writing(there.admin, writing.job).close()  # its topics
        job = writing.job
        listed = acls.origin_mirror_acls(job.name, job.topic)
        there.grant("driver", [one.plain() for one in listed if one.service == "driver"])

        def look(user: str, least_ms: int = 0) -> ResumeDecision:
            return RejoinCheck(broker.cluster, job, "local", "eu", there.cluster(user), least_ms).check(
                writing.generation, lambda _s: None
            )

        assert look("driver") == ResumeDecision(False)
        with pytest.raises(UsageError, match=r"asking region eu \(CUTWATER_ORIGIN_"):
            look("nobody")
        healthy = look("nobody", 10**12)  # it was heard of just now: as little as a broken link does that stop it
        assert not healthy.waits
        assert "may not" in healthy.why
        with pytest.raises(UsageError, match="may not"):
            TransactionalWriter(there.cluster("driver"), topics.signal_id(job.name)).initialise()
    writing.close()
