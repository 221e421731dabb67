"""What users ask with, as checked values: times, tokens, cursors. Each mistake has its HTTP status."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable

from fastapi import HTTPException

from cutwater.core.errors import UsageError
from cutwater.core.job.measures import Measure
from cutwater.core.job.shards import ShardMap
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.query.key_path import decoded
from cutwater.core.util.timestamps import iso, moment_ms

SHARDS_PATTERN = "([0-9]{1,5})(?:-([0-9]{1,5}))?"
_SHARDS = re.compile(SHARDS_PATTERN)
_CURSOR_MAX = 65_536
_TURN_BYTES = 2


def time_ms(name: str, text: str | None) -> int | None:
    """A moment in ms from ISO 8601 (UTC where it has no offset) or from a whole number of ms; 422 otherwise."""
    try:
        return None if text is None else moment_ms(text)
    except ValueError:
        raise HTTPException(
            422, f"{name}={str(text)[:60]!r} is no time: write 2013-01-02T03:00:00Z, or milliseconds since 1970"
        ) from None


def key(text: str | None, text64: str | None) -> str | None:
    """The key that is named in one of two ways; None without one. 422 for both, and for no base64 of UTF-8."""
    if text64 is None:
        return text
    if text is not None:
        raise HTTPException(422, "key and key64: a key is named in one of the two ways")
    try:
        return decoded(text64)
    except ValueError:  # binascii.Error and UnicodeDecodeError, too
        raise HTTPException(422, f"key64={text64[:60]!r} is no base64 (URL alphabet) of a text in UTF-8") from None


def require_alone(shards: str | None, after: str | None) -> None:
    """422 where a question for one key has what belongs to one for all rows."""
    if shards is not None or after is not None:
        raise HTTPException(422, "shards, after: they are for all rows; the windows of a key go on with `from`")


def shards(text: str | None, every: ShardMap) -> range | None:
    """Shards from `first-last`, or of one number; 422 for what are none of the job's."""
    if text is None:
        return None
    found = _SHARDS.fullmatch(text)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if not first <= last < every.shards:
        raise HTTPException(
            422, f"shards={text[:60]!r} are no shards of this job: write 0-127, or 5, below {every.shards}"
        )
    return range(first, last + 1)


def measure(name: str, measures: Iterable[Measure]) -> str:
    """The name itself; 422 for none of the job's measures."""
    names = [one.name for one in measures]
    if name not in names:
        raise HTTPException(422, f"measure={name[:60]!r} is none of the job's: {', '.join(names)}")
    return name


def token(text: str | None, generation: Generation) -> Token | None:
    """A token; 400 when it is none. `generation`: one to show how they look."""
    if text is None:
        return None
    try:
        return Token.parse(text)
    except (UsageError, ValueError):  # ValueError: a number of thousands of digits
        raise HTTPException(
            400, f"at_least={text[:80]!r} is not a token; one looks like {generation}:42"
        ) from None


def hint(lower_ms: int | None) -> dict[str, str]:
    """For an answer that lacks windows because they were evicted: which ones, and why; else nothing."""
    if lower_ms is None:
        return {}
    text = f"windows that end at or before {iso(lower_ms)} were evicted from this view (the job's max_bytes)"
    return {"hint": text}


def cursor(text: str | None, agreed: bytes) -> tuple[int, bytes | None]:
    """Which peer a scan goes on with, and where; 400 when it is no cursor of ours.

    `agreed`: the mark of how partitions are divided. By another division rows would be left out, or come twice.
    """
    if text is None:
        return 0, None
    try:
        if len(text) > _CURSOR_MAX:
            raise ValueError
        plain = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        if len(plain) < len(agreed) + _TURN_BYTES:
            raise ValueError
    except (ValueError, binascii.Error):
        raise HTTPException(400, "after: not a cursor; pass the `next` of the page before, unchanged") from None
    mark, rest = plain[: len(agreed)], plain[len(agreed) :]
    if mark != agreed:
        raise HTTPException(
            400, "after: the partitions have been divided anew since that page: begin the scan again"
        )
    return int.from_bytes(rest[:_TURN_BYTES], "big"), rest[_TURN_BYTES:] or None


def place(text: str | None) -> bytes | None:
    """Where a scan goes on that peers do not take in turn; 400 when it is no cursor of ours."""
    if text is None:
        return None
    try:
        if len(text) > _CURSOR_MAX:
            raise ValueError
        return base64.urlsafe_b64decode(text.encode("ascii"))
    except (ValueError, binascii.Error):
        raise HTTPException(400, "after: not a cursor; pass the `next` of the page before, unchanged") from None


def cursor_text(agreed: bytes, turn: int, storage: bytes | None) -> str | None:
    """The cursor as users see it: opaque. Empty `storage`: from that peer's beginning; None: at the end."""
    if storage is None:
        return None
    return base64.urlsafe_b64encode(agreed + turn.to_bytes(_TURN_BYTES, "big") + storage).decode().rstrip("=")
