"""Where a job's first generation may begin, and where it would be a second job of one name: plain values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutwater.adapters.config.settings import Settings
from cutwater.core.errors import UsageError
from cutwater.core.generations.candidates import Candidates, fold_candidates
from cutwater.core.generations.first_generation import copied_from, require_not_copied
from cutwater.core.mirror.copy_progress import OriginPartition, initial_position
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Claim, Withdrawal

JOB, FIRST, CLAIMED = "flights", Generation(1, "eu"), Generation(2, "eu", "5f0c21aa")
STREAM = replace(
    initial_position(JOB, "us", OriginPartition("flights.milestones", 0, "id", 1), 0, 0, 0), records=1
)
CLAIM = Claim(JOB, CLAIMED, b"", 2, 0, "failover from us", 0, origin="us")


def test_of_which_regions_anything_is_copied_here() -> None:
    """Whatever it is: the copy of the commit stream may have been given up, or not be at work."""
    others = (replace(STREAM, origin="ap", records=0), replace(STREAM, origin="sa", topic="flights.events"))
    assert copied_from([STREAM, *others]) == {"us", "sa"}
    assert copied_from(others[:1]) == set()


def test_no_second_job_of_one_name_begins() -> None:
    """Where another region's job is copied; the message names that region and the ways to go on."""
    require_not_copied(JOB, FIRST, [], Candidates())
    with pytest.raises(UsageError, match=r"in region eu: .* from us.*cutwater failover.*cutwater switchover"):
        require_not_copied(JOB, FIRST, ["us"], Candidates())
    with pytest.raises(UsageError, match=r"from ap and us.*CUTWATER_BEGIN_BESIDE=ap,us"):
        require_not_copied(JOB, FIRST, ["us", "ap"], Candidates())


def test_beside_a_region_that_was_named_it_begins() -> None:
    """Each has to be named; and a claim to go on with that region's job stands above it."""
    require_not_copied(JOB, FIRST, ["us"], Candidates(), {"us", "ap"})
    with pytest.raises(UsageError, match=r"copied here from ap, .*CUTWATER_BEGIN_BESIDE=ap,us"):
        require_not_copied(JOB, FIRST, ["us", "ap"], Candidates(), {"us"})
    with pytest.raises(UsageError, match=f"CUTWATER_GENERATION={CLAIMED}"):
        require_not_copied(JOB, FIRST, ["us"], fold_candidates([CLAIM]), {"us"})
    require_not_copied(JOB, FIRST, ["us"], fold_candidates([CLAIM, Withdrawal(JOB, CLAIMED, "why", 1)]), {"us"})


def test_what_may_be_named() -> None:
    assert Settings(begin_beside=" us, ap,", region="eu").beside == {"us", "ap"}
    assert Settings().beside == frozenset()
    for wrong in ("eu", "US", "us;ap"):
        with pytest.raises(UsageError, match="CUTWATER_BEGIN_BESIDE"):
            _ = Settings(begin_beside=wrong, region="eu").beside


def test_what_was_claimed_to_go_on_here_is_named() -> None:
    """Until it is given up; a claim of this region's own line says nothing of another region."""
    for origins in ([], ["us"]):
        with pytest.raises(UsageError, match=f"CUTWATER_GENERATION={CLAIMED}"):
            require_not_copied(JOB, FIRST, origins, fold_candidates([CLAIM]))
    for harmless in ([CLAIM, Withdrawal(JOB, CLAIMED, "why", 1)], [replace(CLAIM, origin="")]):
        require_not_copied(JOB, FIRST, [], fold_candidates(harmless))
        with pytest.raises(UsageError, match="copied here from us"):
            require_not_copied(JOB, FIRST, ["us"], fold_candidates(harmless))
