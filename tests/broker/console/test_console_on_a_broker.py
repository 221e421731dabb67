"""The console's reader and follower on real topics: what driver and commit-signal write is what the pages show."""

from __future__ import annotations

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.runtime.clock import now_ms
from cutwater.console.follower import JobFollower
from cutwater.console.kafka_reader import KafkaReader
from cutwater.console.ports import JobPlace
from cutwater.core.monitoring.alert_rules import Limits
from support.console.sample_job import ConstructedView
from support.harness import GENERATION, Flow, wait_until
from support.speaking_driver import SpeakingDriver


def place(job: Flow) -> JobPlace:
    settings = Settings(data_dir=job.folder, bootstrap_servers=job.cluster.bootstrap)
    where = (job.job.name, job.job_file, str(GENERATION), job.cluster, settings)
    return JobPlace(*where, "http://127.0.0.1:1", "", True, "")


def test_the_console_shows_what_is_on_the_topics(job: Flow, driver: SpeakingDriver) -> None:
    """The history, new milestones, and pages of topics that hold nothing yet."""
    job.signal()
    for _ in range(3):
        driver.write_epoch()
    reader = KafkaReader(place(job))
    wait_until(lambda: len(list(reader.history())) == 3, "three milestones are written")
    made = JobFollower(reader, ConstructedView(empty=True), Limits(publishes=False), now_ms)
    made.step()
    assert made.standing_json()["problem"] == ""
    with made.reading() as picture:
        assert [one["sequence"] for one in picture.timeline.newest(5)] == [3, 2, 1]
        assert picture.status.sequence == 3
    driver.write_epoch()

    def seen() -> bool:
        made.step()
        with made.reading() as picture:
            return picture.timeline.last_sequence == 4

    wait_until(seen, "the console saw the next milestone")
    wait_until(lambda: [one.service for one in reader.trail()] == ["commit-signal"], "its start is on the trail")
    assert reader.generations()[0].by_id == {}
    assert reader.regions().replicas == []
    assert reader.dead_letters().entries == reader.late().entries == []
    assert [one.sequence for one in reader.restorable(GENERATION).milestones][-1] == 4
