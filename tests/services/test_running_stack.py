"""What `status` names of a stack once a generation was promoted that the stack did not begin with."""

from __future__ import annotations

from dataclasses import replace

from cutwater.local.running import RunningStack

FIRST, SECOND, THIRD = "g1-local-00000000", "g2-local-0badcafe", "g3-local-5f0c21aa"
STACK = RunningStack(
    pid=1,
    started=1.0,
    ready=True,
    job_file="job.yaml",
    job="counts",
    generation=FIRST,
    bootstrap_servers="127.0.0.1:1",
    api_url="",
    spark_ui_url="ui-1",
    data_dir="",
    logs={
        "broker": "b",
        "driver": "d1",
        "commit-signal": "c1",
        f"driver-{SECOND}": "d2",
        f"commit-signal-{SECOND}": "c2",
    },
    metrics={"driver": "m1", f"driver-{SECOND}": "m2", "publisher": "p"},
    spark_uis={SECOND: "ui-2"},
)


def test_before_a_promotion_a_candidate_stands_beside_the_one_at_work() -> None:
    """Each by its name."""
    assert STACK.of(FIRST) == STACK


def test_the_promoted_ones_places_stand_for_those_that_it_has_replaced() -> None:
    """Dead ones are not named; a later candidate's are."""
    now = replace(STACK, logs={**STACK.logs, f"driver-{THIRD}": "d3"}).of(SECOND)
    assert now.logs == {"broker": "b", "driver": "d2", "commit-signal": "c2", f"driver-{THIRD}": "d3"}
    assert (now.metrics, now.spark_ui_url) == ({"driver": "m2", "publisher": "p"}, "ui-2")


def test_of_a_generation_that_runs_elsewhere_nothing_is_known() -> None:
    """What was replaced goes all the same."""
    assert STACK.of(THIRD).logs == {"broker": "b", "driver": "d1", "commit-signal": "c1"}
