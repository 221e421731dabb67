"""The keys of a selection are keys of the job, in any spelling."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cutwater.adapters.config.held_part import holding_of, selected_part
from cutwater.adapters.config.settings import Settings
from cutwater.adapters.hashing import key_hash
from cutwater.core.errors import UsageError
from cutwater.core.events.key_columns import KeyColumn
from cutwater.core.job.job import Job
from support.views.changelogs import make_job

STORED = '["JFK","7"]'
LISTED = '["[\\"JFK\\", \\"007\\"]"]'
"""A list of one name, which is a list itself."""


@pytest.fixture
def job(tmp_path: Path) -> Job:
    columns = (KeyColumn("airport", "string"), KeyColumn("number", "long"))
    return replace(make_job(tmp_path)[0], key_field="", key_columns=columns)


def test_a_key_is_selected_as_it_is_stored(job: Job) -> None:
    """With the partition that has its rows: as it is written here it would select none."""
    held = selected_part(job, "", LISTED, "", "")
    assert held.selection is not None
    assert held.selection.keys == {STORED}
    assert held.partitions == {job.shards.partition(job.shards.shard(key_hash(STORED)))}
    assert holding_of(Settings(select_keys=LISTED), job) == (held, True)


@pytest.mark.parametrize("keys", [STORED, "JFK", '["[\\"JFK\\"]"]'])
def test_what_is_no_key_of_the_job_is_refused(job: Job, keys: str) -> None:
    """A `diff` of such keys found no difference, and a replica held nothing. The first is a list of two names."""
    with pytest.raises(UsageError, match="is no key of this job, whose key columns are: airport, number"):
        selected_part(job, "", keys, "", "")


def test_keys_of_one_text_are_taken_as_they_are(tmp_path: Path) -> None:
    plain = selected_part(make_job(tmp_path)[0], "", "JFK, b/c", "", "").selection
    assert plain is not None
    assert plain.keys == {"JFK", "b/c"}
    typed = replace(make_job(tmp_path)[0], key_kind="uuid")
    held = selected_part(typed, "", "01234567-89AB-cdef-0123-456789abcdef", "", "").selection
    assert held is not None
    assert held.keys == {"01234567-89ab-cdef-0123-456789abcdef"}
