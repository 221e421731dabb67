"""Words of a shell that are not UTF-8."""

from __future__ import annotations

import pytest

from cutwater.cli.rehydrator_api import ask
from cutwater.core.errors import UsageError

NO_TEXT = b"a\xff".decode("utf-8", "surrogateescape")


@pytest.mark.parametrize("name", ["key", "airport", "from", "at_least"])
def test_a_word_that_is_not_utf_8_is_told(name: str) -> None:
    """Before anyone is asked: nobody listens at this port."""
    with pytest.raises(UsageError, match="is not UTF-8"):
        ask("http://127.0.0.1:1/v1/state", {name: NO_TEXT}, {})
