"""May a driver go on from its checkpoint? Every standing that a crash can leave passes, others do not."""

from __future__ import annotations

import pytest

from cutwater.core.driver.checkpoint_check import NONE, NewestEpochs, contradiction, require_match
from cutwater.core.errors import DivergenceError
from support.protocol_samples import source_cut


def reachable(newest: int) -> set[NewestEpochs]:
    """What a crash can leave, by walking the steps: plan N, barrier N, commit N, milestone N when it comes."""
    found = set()
    for epoch in range(newest + 1):
        before = epoch - 1
        # The milestone of the epoch before needs no more than its commit; barrier N implies it, later.
        for milestone in {before, max(before - 1, NONE)}:
            found.add(NewestEpochs(before, before, before, milestone))
            found.add(NewestEpochs(epoch, before, before, milestone))
            found.add(NewestEpochs(epoch, before, epoch, milestone))
            found.add(NewestEpochs(epoch, epoch, epoch, milestone))
        found.add(NewestEpochs(epoch, epoch, epoch, epoch))
    return found


def test_what_a_crash_leaves_is_no_contradiction() -> None:
    """A driver killed between any two steps may start again on its own checkpoint."""
    assert {one: contradiction(one) for one in reachable(4)} == dict.fromkeys(reachable(4))


@pytest.mark.parametrize(
    ("standing", "said"),
    [
        (NewestEpochs(NONE, NONE, 3, 2), "ends at epoch -1, but the stream has barrier 3"),
        (NewestEpochs(2, 1, 3, 2), "ends at epoch 2, but the stream has barrier 3"),
        (NewestEpochs(3, 2, 3, 3), "committed 2, but the stream has milestone 3"),
        (NewestEpochs(5, 4, 3, 2), "committed 4, but the newest barrier is 3"),
        (NewestEpochs(4, 1, 4, 1), "barrier 4, but the checkpoint has committed 1"),
    ],
    ids=["lost", "rolled back", "milestone ahead of commit", "of another stream", "commits lost"],
)
def test_a_checkpoint_that_is_not_this_streams_is_refused(standing: NewestEpochs, said: str) -> None:
    """The message says what is where, and both ways out."""
    with pytest.raises(DivergenceError, match=said) as caught:
        require_match("flights", standing, None, None)
    assert "Restore the right checkpoint, or start a new generation" in str(caught.value)


def test_the_planned_epoch_must_read_what_its_barrier_said() -> None:
    """A checkpoint of equal numbers and other events is another checkpoint."""
    standing = NewestEpochs(3, 2, 3, 2)
    require_match("flights", standing, source_cut(3), source_cut(3))
    with pytest.raises(DivergenceError, match="epoch 3 reads other events"):
        require_match("flights", standing, source_cut(4), source_cut(3))


@pytest.mark.parametrize("alone", [False, True])
def test_a_plan_that_is_gone_where_later_ones_stand_is_a_lost_checkpoint(alone: bool) -> None:
    """Removed under a running driver."""
    with pytest.raises(DivergenceError, match="the plan of epoch 2 is gone, but there is one of epoch 3"):
        require_match("flights", NewestEpochs(3, 2, 2, 2), None, source_cut(2), alone)


def test_the_next_epoch_is_the_first_uncommitted_one() -> None:
    """A planned but uncommitted epoch is run again."""
    assert NewestEpochs(3, 2, 3, 2).next_epoch == 3
    assert NewestEpochs(NONE, NONE, NONE, NONE).next_epoch == 0
