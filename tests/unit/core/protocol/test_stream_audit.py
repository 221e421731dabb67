"""`milestones --check`: what no run of the protocol can have written is named, and what one has written is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.protocol.chain import link
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.records import Milestone
from cutwater.core.protocol.stream_audit import Barriers, check
from support.protocol_samples import barrier, committed, milestone, run, start

Pairs = list[tuple[Milestone, bytes]]


def pair(one: Milestone) -> tuple[Milestone, bytes]:
    return one, repr(one).encode()


def history(replays: list[bool]) -> tuple[Pairs, Barriers]:
    """What the signaller's own code makes of epochs, each perhaps written again by a new attempt."""
    attempt, signals, barriers = 1, [start(1)], Barriers()
    for epoch, replayed in enumerate(replays):
        signals.append(barrier(epoch, attempt))
        if replayed:
            attempt += 1
            signals += [start(attempt), barrier(epoch, attempt)]
        signals.append(committed(epoch, attempt))
    for number, signal in enumerate(signals):
        barriers.add(signal, 2 * number)
    _, records = run(*signals)
    return [pair(one) for one in records if isinstance(one, Milestone)], barriers


@given(st.lists(st.booleans(), max_size=8), st.integers(0, 8))
def test_whatever_the_signaller_writes_passes(replays: list[bool], pruned: int) -> None:
    """Replays, new attempts, pruned stream and pruned barriers are no faults."""
    stream, barriers = history(replays)
    assert len(stream) == len(replays)
    assert check(stream[pruned:], barriers) == []
    assert check(stream, Barriers()) == []


def changed(stream: Pairs, at: int, **changes: Any) -> Pairs:
    """A stream with one milestone told differently, and chained again as a liar would."""
    made: Pairs = []
    for number, (one, _) in enumerate(stream):
        parent = link(made[-1][1]) if made else one.parent_hash
        made.append(pair(replace(one, parent_hash=parent, **(changes if number == at else {}))))
    return made


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"attempt": 0}, "attempts count from 1"),
        ({"attempt": 1}, "attempt 1 follows 2"),
        ({"rows": 0}, "no rows, and digest"),
        ({"rejected": 191}, "191 of 190 events rejected"),
        ({"horizon_ms": 10**15}, "is above watermark"),
        ({"job": "trains"}, "job trains follows flights"),
        ({"barriers_position": 0}, "goes back from"),
        ({"watermark_ms": 0}, "the watermark goes back"),
        ({"horizon_ms": -1}, "the horizon goes back from 0 to -1"),
        ({"schema_fingerprint": "other"}, "the schema changes"),
        ({"definition": "other"}, "the definition changes"),
        ({"changelog_cut": Cut.of_topic("flights.changelog.g1-local-00000000", [99])}, "partitions are not"),
        ({"rows": 10_000}, "10000 rows, and the changelog grew by 20 records"),
        ({"digest": 1}, "barrier 2 of attempt 2 has other contents"),
        ({"attempt": 3}, "no barrier of epoch 2 is of attempt 3"),
        ({"attempt": 3}, "attempt 3 has never started"),
    ],
)
def test_each_fault_is_named_by_its_sequence(changes: dict[str, Any], reason: str) -> None:
    """A stream whose hashes are all right can still say what cannot be; the first to be wrong is named."""
    stream, barriers = history([False, True, False, False])
    found = check(changed(stream, 2, **changes), barriers)
    assert next(one.sequence for one in found if reason in one.reason) == 3, found


def test_an_attempt_that_had_lost_is_named() -> None:
    """A milestone of attempt 1 although attempt 2 had written the epoch's barrier before."""
    stream, barriers = history([False, True])
    loser = replace(milestone(1, stream[0][0]), attempt=1, barriers_position=stream[1][0].barriers_position)
    loser = replace(loser, parent_hash=link(stream[0][1]), changelog_cut=barrier(1, 1).changelog_cut)
    found = [one.reason for one in check([stream[0], pair(loser)], barriers)]
    assert found == ["attempt 2 had written barrier 1 again before attempt 1 won"]
    (again,) = [one.offset for one in barriers.digests[loser.generation, 1] if one.attempt == 2]
    assert check([stream[0], pair(replace(loser, barriers_position=again))], barriers) == [], "it was not read yet"


@pytest.mark.parametrize("damage", [lambda stream: stream[:1] + stream[2:], lambda stream: stream[::-1]])
def test_what_every_reader_checks_is_checked_too(damage: Callable[[Pairs], Pairs]) -> None:
    """Gaps and forks of the chain are in the answer."""
    stream, barriers = history([False, False, False])
    assert any("gap" in one.reason for one in check(damage(stream), barriers))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"rows": -1}, "-1 rows"),
        ({"rejected": -1}, "-1 of"),
        ({"rejected": 191}, "191 of 190 events rejected"),
        ({"rejected": 190}, ""),
        ({"rejected": 0}, ""),
        ({"attempt": 0}, "attempt 0: attempts count from 1"),
        ({"horizon_ms": 1}, "horizon 1 is above watermark 0"),
        ({"horizon_ms": 0}, ""),
    ],
)
def test_a_milestone_that_cannot_be_is_named_by_itself(changes: dict[str, int], named: str) -> None:
    found = [str(one) for one in check([pair(milestone(0, **changes))], Barriers())]
    assert any(named in one for one in found) if named else not found


def test_a_changelog_that_was_empty_may_get_any_partitions() -> None:
    """An epoch without a row has no cut of it; from the first row on the partitions stay what they are."""
    first = milestone(0, rows=0, digest=0, changelog_cut=Cut())
    second, third = (milestone(epoch, sequence=epoch + 1) for epoch in (1, 2))
    assert check(changed([pair(first), pair(second), pair(third)], 0), Barriers()) == []
    other = replace(second, changelog_cut=Cut.of_topic("flights.changelog.g1-local-00000000", [20]))
    found = check(changed([pair(first), pair(other), pair(third)], 0), Barriers())
    assert [(one.sequence, one.reason) for one in found] == [
        (3, "the changelog's partitions are not those of the milestone before")
    ]
