"""A registry for the tests of this folder: the stand-in, and a real one in the slow tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.events.registries import StandIn, apicurio


@pytest.fixture(scope="module", params=["stand-in", pytest.param("apicurio", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a registry."""
    if request.param == "apicurio":
        with apicurio(tmp_path_factory.mktemp("apicurio")) as found:
            yield found
    else:
        with StandIn().running() as registry:
            yield registry.url
