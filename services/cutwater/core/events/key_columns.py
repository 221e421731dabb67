"""Keys of several columns: one text, a compact JSON array of the columns' values, each as a text.

The driver makes the same bytes with Spark's `to_json`, and a test compares the two. So a key has one text, by
which it is found, compared and assigned to a shard.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from cutwater.core.errors import UsageError
from cutwater.core.util.suggestions import value_text

KEY_COLUMNS_MAX = 8
PARAMETERS = frozenset(
    {"key", "key64", "from", "to", "shards", "after", "limit", "at_least", "wait_ms", "partial"}
)
"""Parameters of the API's routes that take key columns, beside which a column could not be told."""
TEXT, NUMBER = "string", "long"
_NUMBER = re.compile(r"-?[0-9]{1,19}")
_LOWER_HEX = re.compile(r"(?<!\\)((?:\\\\)*\\u00)([01][a-f])")


class KeyColumn(NamedTuple):
    name: str
    kind: str
    """`string`, or `long` for whole numbers: the type that readers see."""


def key_text(values: Iterable[str]) -> str:
    """Return the key of these texts."""
    text = json.dumps(list(values), ensure_ascii=False, separators=(",", ":"))
    # Spark writes control characters with capital digits.
    return _LOWER_HEX.sub(lambda found: found[1] + found[2].upper(), text)


def key_prefix(values: Sequence[str]) -> str:
    """Return the beginning of each key with these leading values and further ones."""
    return key_text(values)[:-1] + ("," if values else "")


def key_values(text: str, columns: Sequence[KeyColumn]) -> dict[str, Any]:
    """Return the columns' values of a key. Raises UsageError for a text that is no key of these columns."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or len(found) != len(columns) or not all(type(one) is str for one in found):
        names = ", ".join(one.name for one in columns) or "none"
        raise UsageError(f"{value_text(text)} is no key of this job, whose key columns are: {names}")
    return {column.name: _value(column, one) for column, one in zip(columns, found, strict=True)}


def column_text(column: KeyColumn, given: str) -> str:
    """Return a column's value, as a person writes it, as it is in keys. Raises UsageError if it is no number."""
    return str(_value(column, given))


def _value(column: KeyColumn, given: str) -> str | int:
    if column.kind == TEXT:
        return given
    if not _NUMBER.fullmatch(given):
        raise UsageError(f"{column.name}={value_text(given)} is no whole number")
    return int(given)
