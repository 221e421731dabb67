"""Which job file a process works with: its own, one that a claim carries, or none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.job_files.carried_files import carried_files
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.topics.generation_jobs import GenerationJobs
from cutwater.core.errors import UsageError
from cutwater.core.generations.candidates import Candidates, fold_candidates
from cutwater.core.job.job import Job
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Claim, Milestone, Redefinition
from support.protocol_samples import milestone
from support.views.changelogs import make_job

FIRST, SECOND = Generation(1, "local"), Generation(2, "local", "0badcafe")


class Told:
    """Two job files, of which the second one's generation is claimed from a milestone of the first one's."""

    def __init__(self, folder: Path) -> None:
        self.old, path = make_job(folder)
        self.old_files = carried_files(path)
        path.write_text(path.read_text() + "  most: {measure: max, field: pieces}\n")
        self.new, self.new_files = load_job(path), carried_files(path)
        self.parent = self.milestone(FIRST, self.old)
        name = self.old.name
        claim = Claim(name, SECOND, protocol_records.encode(self.parent), 5, 0, "", 0)
        files = ((FIRST, self.old, self.old_files), (SECOND, self.new, self.new_files))
        redefined = [Redefinition(name, of, one.fingerprint, texts, 0, 0) for of, one, texts in files]
        self.known = fold_candidates([claim, *redefined])

    def milestone(self, generation: Generation, job: Job) -> Milestone:
        cut = Cut.of_topic(f"{job.name}.changelog.{generation}", [1, 2, 3])
        return replace(
            milestone(3), job=job.name, generation=generation, definition=job.fingerprint, changelog_cut=cut
        )

    def jobs(self, own: Job, known: Candidates | None = None) -> GenerationJobs:
        return GenerationJobs(own, lambda: self.known if known is None else known)


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path)


def test_each_job_file_finds_the_generation_of_the_other(told: Told) -> None:
    """With the partitions of that generation."""
    second = told.milestone(SECOND, told.new)
    for own in (told.old, told.new):
        jobs = told.jobs(own)
        assert jobs.at(told.parent).fingerprint == told.old.fingerprint
        assert jobs.at(second).fingerprint == told.new.fingerprint
        assert jobs.at(second).shards.partitions == 3
        assert jobs.of_candidate(told.known.by_id[SECOND]).fingerprint == told.new.fingerprint
        assert jobs.of_candidate(told.known.by_id[SECOND]).shards.partitions == 5
        assert jobs.by_id(FIRST).fingerprint == told.old.fingerprint
        assert jobs.by_id(SECOND).fingerprint == told.new.fingerprint


def test_ones_own_is_taken_without_a_look_at_the_topic(told: Told) -> None:
    """Its other settings are the operator's: a lateness that was edited counts."""

    def never() -> Candidates:
        raise AssertionError

    own = replace(told.old, lateness_ms=7)
    assert GenerationJobs(own, never).at(told.parent).lateness_ms == 7


def test_a_job_file_of_no_generation_is_refused_with_the_difference(told: Told) -> None:
    strange = replace(told.old, measures=told.old.measures[:-1])
    with pytest.raises(UsageError, match=f"measures was .* 'cutwater generation job-file {SECOND}'"):
        told.jobs(strange).at(told.milestone(SECOND, told.new))


def test_without_a_carried_file_the_own_one_is_taken(told: Told) -> None:
    """Its users find what differs, as they did before there were such files."""

    def refused() -> Candidates:
        raise UsageError("no right to read the topic")

    second = told.milestone(SECOND, told.new)
    assert told.jobs(told.old, Candidates()).at(second).fingerprint == told.old.fingerprint
    assert GenerationJobs(told.old, refused).at(second).fingerprint == told.old.fingerprint
    assert GenerationJobs(told.old, refused).by_id(SECOND).fingerprint == told.old.fingerprint


def test_of_two_files_with_the_same_rows_each_generation_has_its_own(told: Told) -> None:
    """They differ in the lateness alone."""
    third = Generation(3, "local", "0badcafe")
    texts = tuple(one._replace(text=one.text.replace("lateness: ", "lateness: 1")) for one in told.new_files)
    assert texts != told.new_files
    parent = protocol_records.encode(told.milestone(SECOND, told.new))
    known = told.known.after(Claim(told.old.name, third, parent, 5, 0, "", 0))
    known = known.after(Redefinition(told.old.name, third, told.new.fingerprint, texts, 0, 0))
    jobs = told.jobs(told.old, known)
    assert jobs.by_id(third).lateness_ms != jobs.by_id(SECOND).lateness_ms == told.new.lateness_ms
