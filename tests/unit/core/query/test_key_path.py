"""How a key is written in a URL: plain as long as it may be a key of today, else in base64."""

from __future__ import annotations

import pytest

from cutwater.core.events.rejection import MAX_KEY_BYTES
from cutwater.core.query.key_path import decoded, encoded, key_query


def test_only_a_key_larger_than_any_of_today_is_encoded() -> None:
    """By its bytes in UTF-8."""
    largest = "ü" * (MAX_KEY_BYTES // 2)
    assert key_query(largest) == {"key": largest}
    larger = largest + "x"
    assert key_query(larger) == {"key64": encoded(larger.encode())}
    assert decoded(encoded(larger.encode())) == larger


@pytest.mark.parametrize("text", ["YWJj!!!!", "YW Jj", "_w", "Y"])
def test_what_is_no_base64_of_a_text_is_refused(text: str) -> None:
    """Characters of no alphabet are not passed over: another key would be shown."""
    with pytest.raises(ValueError):
        decoded(text)
