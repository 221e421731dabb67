"""`down --delete` on a user's cluster takes the changelogs of claimed generations, and nobody else's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka import admin
from cutwater.adapters.topics.candidates import with_partitions
from cutwater.core.checks.replication import UNREPLICATED
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.topics import TopicSpec
from cutwater.local import added_topics, job_topics
from cutwater.local.chaos.replay import _remove_left_over
from cutwater.local.chaos.target import ChaosTarget
from cutwater.operations.generations.claims import Claims
from support.views.changelogs import Sold, Writing, make_job, now_ms


class Stack:
    """What a stack on the session's broker has made, as if that were a user's."""

    def __init__(self, cluster: Any, folder: Path, *there: str) -> None:
        self.cluster, self.folder = cluster, folder
        self.job, _ = make_job(folder)
        self.settings = Settings(bootstrap_servers=cluster.bootstrap, data_dir=folder)
        admin.create_topics(cluster, [topics.events(self.job.topic, 1)])
        owned = topics.generation_topics(self.job.name, self.settings.generation, 3)
        admin.create_topics(cluster, [one for one in owned if one.name in {self.named(name) for name in there}])
        self.prepare()
        writing = Writing(cluster, self.job)
        writing.epoch([Sold("a", 1, 5)])
        self.first = writing.topic
        claims = Claims(cluster, self.job, "local", now_ms)
        self.claimed = claims.start(None, 6, False, "a test", UNREPLICATED).generation
        self.stranger = topics.changelog(self.job.name, Generation(9, "local", "aaaaaaaa"))
        admin.create_topics(cluster, [TopicSpec(self.stranger, 1, ())])

    def named(self, kind: str) -> str:
        return f"{self.job.name}.{kind}"

    def prepare(self, generation: Generation | None = None) -> None:
        """As a stack does that begins with this generation."""
        settings = self.settings.model_copy(update={"generation": generation or self.settings.generation})
        job_topics.prepare(self.cluster, self.job, settings, lambda line: None)

    def left(self) -> added_topics.Added:
        kept = added_topics.read(self.folder)
        assert kept is not None
        return added_topics.left_over(self.cluster, kept)


def test_a_claimed_generations_changelog_is_removed(broker: Any, tmp_path: Path) -> None:
    """The first one's and the claimed one's; not one of the same prefix that nobody claimed, nor the source."""
    stack = Stack(broker.cluster, tmp_path)
    created = stack.left().created
    assert {stack.first, topics.changelog(stack.job.name, stack.claimed)} <= set(created)
    assert not {stack.stranger, stack.job.topic} & set(created)
    gone = admin.delete_topics(broker.cluster, created)
    assert set(gone) == set(created)
    assert (stack.left().created, stack.left().found) == ((), ())


def test_nothing_is_ours_where_the_claims_are_anothers(broker: Any, tmp_path: Path) -> None:
    """The candidates topic was there before: what was claimed on it may be another's."""
    stack = Stack(broker.cluster, tmp_path, "candidates")
    assert topics.changelog(stack.job.name, stack.claimed) not in stack.left().created
    assert stack.left().found == (stack.named("candidates"),)


@pytest.mark.parametrize("claims_ours", [True, False])
def test_a_stack_that_begins_with_a_later_generation_forgets_nothing(
    claims_ours: bool, broker: Any, tmp_path: Path
) -> None:
    """The first one's changelog is still ours, though the stack no longer looks for it."""
    stack = Stack(broker.cluster, tmp_path, *([] if claims_ours else ["candidates"]))
    stack.job = with_partitions(stack.job, 6)
    stack.prepare(stack.claimed)
    left = stack.left()
    second = topics.changelog(stack.job.name, stack.claimed)
    assert stack.first in left.created
    assert (second in left.created, second in left.found) == (claims_ours, not claims_ours)


def test_topics_of_a_replay_that_was_killed_are_removed(broker: Any, tmp_path: Path) -> None:
    """Else the next one would go on behind it. Its folder tells which they are; the source stays."""
    stack = Stack(broker.cluster, tmp_path / "chaos" / "stack")
    created, said = stack.left().created, list[str]()
    _remove_left_over(ChaosTarget(broker.cluster, tmp_path, ""), tmp_path / "chaos", said.append)
    assert created
    assert not admin.describe_topics(broker.cluster, created)
    assert admin.describe_topics(broker.cluster, [stack.job.topic])
    assert not (tmp_path / "chaos").exists()
    assert said == []
