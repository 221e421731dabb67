"""What `committed()` reads."""

from __future__ import annotations

from typing import Any

import pytest

from cutwater.client.committed import committed
from cutwater.core.errors import UsageError


@pytest.mark.parametrize("source", ["ouput", "OUTPUT", "", None])
def test_another_source_is_refused(source: Any) -> None:
    """It read the changelog, whose rows are others."""
    with pytest.raises(UsageError, match="allowed: output, changelog"):
        committed("no such file", source=source)
