"""What `cutwater.testing` tells the processes that it starts, from the environment and what a test sets."""

from __future__ import annotations

import pytest

from cutwater.core.errors import UsageError
from cutwater.testing.process_settings import settings_and_environment

TOKEN = "a-token-of-sixteen"


def test_containers_are_told_what_both_sides_must_agree_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container inherits nothing: without these it serves another region's generation, or to everybody."""
    monkeypatch.setenv("CUTWATER_REGION", "eu")
    monkeypatch.setenv("CUTWATER_API_TOKEN", TOKEN)
    own, variables = settings_and_environment(None)
    assert (own.region, own.api_headers) == ("eu", {"Authorization": f"Bearer {TOKEN}"})
    assert (variables["CUTWATER_REGION"], variables["CUTWATER_API_TOKEN"]) == ("eu", TOKEN)


def test_what_a_test_sets_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTWATER_REGION", "eu")
    own, variables = settings_and_environment({"CUTWATER_REGION": "us"})
    assert (own.region, variables["CUTWATER_REGION"]) == ("us", "us")


@pytest.mark.parametrize("name", ["CUTWATER_NONE", "REGION", "CUTWATER_PORT", "CUTWATER_KAFKA_SASL_USERNAME"])
def test_a_name_that_cannot_be_set_is_refused_by_name(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        settings_and_environment({name: "1"})
