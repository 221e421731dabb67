"""Rules of a policy: each is broken just beyond its bounds, and by its own field alone."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.config.policy_file import read_policy
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.checks.findings import Level
from cutwater.core.checks.policy import Bounds, Policy, ResourceRule, check_policy
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Attached, Output

ROOT = Path(__file__).parents[4]
JOB = load_job(ROOT / "deploy/jobs/flights.yaml")
DAY = 86_400_000


def broken(policy: Policy, job: Any = JOB) -> list[str]:
    return [one.found.partition(":")[0] for one in check_policy(job, policy) if one.level is Level.ERROR]


def test_the_demonstration_keeps_the_policy_of_its_folder() -> None:
    assert broken(read_policy(ROOT / "deploy/policy.yaml")) == []
    assert check_policy(JOB, Policy())[0].level is Level.OK


@pytest.mark.parametrize(
    ("rule", "field", "value"),
    [
        ("lateness", "lateness", JOB.lateness_ms),
        ("retention", "retention", JOB.retention_ms),
        ("output.retention", "output_retention", JOB.output.retention_ms),
        ("partitions", "partitions", JOB.shards.partitions),
        ("shards", "shards", JOB.shards.shards),
    ],
)
def test_both_ends_of_a_bound_are_allowed(rule: str, field: str, value: float) -> None:
    for bounds, is_broken in (
        (Bounds(value, value), False),
        (Bounds(value + 1), True),
        (Bounds(None, value - 1), True),
    ):
        assert broken(replace(Policy(), **{field: bounds})) == ([rule] if is_broken else [])


def test_what_is_without_a_bound_breaks_an_upper_one() -> None:
    """Lists that are kept for ever, and a view of any size."""
    assert JOB.lists_retention_ms is None
    assert broken(Policy(lists_retention=Bounds(None, DAY), state_bytes=Bounds(None, 1e12))) == [
        "state_bytes",
        "lists.retention",
    ]
    assert broken(Policy(lists_retention=Bounds(DAY), state_bytes=Bounds(5))) == []
    assert broken(Policy(lists_retention=Bounds(None, DAY)), replace(JOB, lists_retention_ms=DAY)) == []


def test_words() -> None:
    assert broken(Policy(names="flights")) == []
    assert broken(Policy(names="flight")) == ["names"], "the whole name"
    assert broken(Policy(formats=("json",), output_modes=("none",), output_formats=("json",))) == [
        "output.modes",
        "output.formats",
        "formats",
    ]
    assert broken(Policy(needs_max_jump=True)) == ["needs_max_jump"]
    assert broken(Policy(needs_max_jump=True), replace(JOB, max_jump_ms=5)) == []


def test_rules_about_what_a_job_does_not_have_do_not_apply() -> None:
    silent = replace(JOB, output=Output(mode="none"))
    assert broken(Policy(output_retention=Bounds(1e12), output_formats=("json",)), silent) == []
    attached = replace(JOB, attached=Attached("key", "window"))
    about_source = Policy(
        formats=("json",), lateness=Bounds(1e12), lists_retention=Bounds(None, 1), needs_max_jump=True
    )
    assert broken(about_source, attached) == []


@given(st.builds(Bounds, st.none() | st.integers(0, 100), st.none() | st.integers(0, 100)), st.integers(0, 100))
def test_a_bound_holds_what_is_within(bounds: Bounds, value: int) -> None:
    low = value if bounds.at_least is None else bounds.at_least
    high = value if bounds.at_most is None else bounds.at_most
    assert bounds.holds(value) == (low <= value <= high)


def test_a_file_has_every_rule(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(
        "names: a+\nformats: [json]\nneeds_max_jump: true\nlateness: {at_most: 2h}\nretention: {at_least: 1d}\n"
        "output: {modes: [none], formats: [avro], retention: {at_most: 3d}}\nlists: {retention: {at_most: 4d}}\n"
        "partitions: {at_least: 2}\nshards: {at_most: 9}\nstate_bytes: {at_most: 1000}\n"
        "lifecycle: {output: {keep: {at_most: 9d}, bytes: {at_most: 2GB}, cost: {at_most: 7.5}}}\n"
    )
    found = read_policy(tmp_path / "policy.yaml")
    assert found == Policy(
        "a+",
        ("json",),
        ("none",),
        ("avro",),
        True,
        Bounds(None, 7_200_000),
        Bounds(DAY),
        Bounds(None, 3 * DAY),
        Bounds(None, 4 * DAY),
        Bounds(2),
        Bounds(None, 9),
        Bounds(None, 1000),
        {"output": ResourceRule(Bounds(None, 9 * DAY), Bounds(None, 2_000_000_000), Bounds(None, 7.5))},
    )
    unset = [one.name for one in fields(Policy) if getattr(found, one.name) in (one.default, {})]
    assert unset == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: a", "did you mean 'names'?"),
        ("names: '('", "no regular expression"),
        ("formats: [xml]", "some of: avro, confluent"),
        ("lateness: 5", ":1: lateness"),
        ("retention: {most: 5d}", "retention.most"),
        ("partitions: {at_least: many}", "partitions.at_least"),
        ("output: {modes: updates}", "output.modes"),
        ("lifecycle: {topics: {keep: {at_most: 1d}}}", "lifecycle.topics"),
        ("lifecycle: {output: {bytes: {at_most: [1]}}}", "write a whole number and B, KB"),
        ("lifecycle: {output: {cost: {at_least: 1}}}", "lifecycle.output.cost.at_least"),
        ("loads: {flights: {keys: 5}}", "loads.flights.events_per_second"),
    ],
)
def test_a_wrong_file_names_its_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "policy.yaml").write_text(text)
    with pytest.raises(UsageError) as error:
        read_policy(tmp_path / "policy.yaml")
    assert "policy.yaml:1" in str(error.value)
    assert said in str(error.value)
