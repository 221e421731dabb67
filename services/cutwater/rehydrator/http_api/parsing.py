"""Request parameters as checked values: times, tokens, cursors. Each mistake has its HTTP status."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Sequence

from fastapi import HTTPException
from starlette.datastructures import QueryParams

from cutwater.core.errors import UsageError
from cutwater.core.events.key_columns import NULL, KeyColumn, column_text, key_prefix, key_text
from cutwater.core.job.job import Job
from cutwater.core.job.measures import THETA, Measure
from cutwater.core.job.shards import ShardMap
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.query.key_path import decoded
from cutwater.core.util.timestamps import iso, moment_ms

SHARDS_PATTERN = "([0-9]{1,5})(?:-([0-9]{1,5}))?"
_SHARDS = re.compile(SHARDS_PATTERN)
_CURSOR_MAX = 65_536
_TURN_BYTES = 2


def time_ms(name: str, text: str | None) -> int | None:
    """Return ms from ISO 8601 (UTC without an offset) or a whole number of ms; raise 422 otherwise."""
    try:
        return None if text is None else moment_ms(text)
    except ValueError:
        raise HTTPException(
            422, f"{name}={str(text)[:60]!r} is not a time: write 2013-01-02T03:00:00Z, or milliseconds since 1970"
        ) from None


def key(text: str | None, text64: str | None) -> str | None:
    """Return the key from one of the two parameters, or None. Raises 422 for both, and for invalid base64."""
    if text64 is None:
        return text
    if text is not None:
        raise HTTPException(422, "key and key64: pass one of them, not both")
    try:
        return decoded(text64)
    except ValueError:  # also binascii.Error and UnicodeDecodeError
        raise HTTPException(422, f"key64={text64[:60]!r} is not base64 (URL alphabet) of UTF-8 text") from None


def key_or_prefix(key: str | None, asked: QueryParams, job: Job) -> tuple[str | None, str]:
    """Return the key in a query of rows, or the prefix of the keys if only leading columns are given.

    Raises 400 for columns that do not lead, 422 for a text that is no key of the job, and for invalid values.
    """
    columns = job.key_columns or ()
    names = [one.name for one in columns]
    nulls = _nulls(asked, columns)
    given = [one for one in names if one in asked or one in nulls]
    if not given:
        return (None if key is None else stored_key(key, job)), ""
    if given != names[: len(given)]:
        last = names.index(given[-1])
        raise HTTPException(
            400, f"{given[-1]}: only together with the columns before it: {', '.join(names[:last])}"
        )
    if key is not None or any(len(asked.getlist(name)) + nulls.count(name) > 1 for name in given):
        raise HTTPException(422, f"{', '.join(given)}: pass each column once, and no key beside them")
    try:
        texts = [None if one.name in nulls else column_text(one, asked[one.name]) for one in columns[: len(given)]]
    except UsageError as error:
        raise HTTPException(422, str(error)) from None
    if len(texts) == len(columns):
        return key_text(texts), ""
    return None, key_prefix(texts)


def _nulls(asked: QueryParams, columns: Sequence[KeyColumn]) -> list[str]:
    """Return the columns that are asked for as null. Raises 422 for others than those that may be."""
    names = [one.name for one in columns]
    if not columns or NULL in names:  # then the parameter is that column, which is never null
        return []
    found = asked.getlist(NULL)
    if found and not any(one.nullable for one in columns):
        raise HTTPException(422, f"{NULL}: events with a null in the key are dead letters of this job")
    if wrong := [one for one in found if one not in names]:
        raise HTTPException(422, f"{NULL}={wrong[0][:60]!r} is no column of the key: {', '.join(names)}")
    return found


def stored_key(key: str, job: Job) -> str:
    """Return a key as it is stored, of one that a person writes; raise 422 if it is none of the job."""
    try:
        return job.stored_key(key)
    except UsageError as error:
        if job.key_columns is None:
            raise HTTPException(422, f"key: {error}") from None
        example = key_text("…" for _ in job.key_columns)
        raise HTTPException(422, f"key: {error}. Write each as a parameter, or all as {example}") from None


def require_alone(shards: str | None, after: str | None) -> None:
    """Raise 422 if a request for one key has parameters for all rows."""
    if shards is not None or after is not None:
        raise HTTPException(422, "shards, after: only without a key; page through a key's windows with `from`")


def shards(text: str | None, every: ShardMap) -> range | None:
    """Return the shards of `first-last` or one number; raise 422 for shards that the job does not have."""
    if text is None:
        return None
    found = _SHARDS.fullmatch(text)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if not first <= last < every.shards:
        raise HTTPException(
            422, f"shards={text[:60]!r} are not shards of this job: write 0-127, or 5, below {every.shards}"
        )
    return range(first, last + 1)


def measure(name: str, measures: Iterable[Measure]) -> str:
    """Return the name; raise 422 if the job has no such measure, or rows have no order by it."""
    known = {one.name: one for one in measures}
    names = [one.name for one in known.values() if not one.length]
    if name not in names:
        what = "has lists, by which rows have no order" if name in known else "is not a measure of the job"
        raise HTTPException(422, f"measure={name[:60]!r} {what}: {', '.join(names)}")
    return name


def theta_measure(name: str, measures: Iterable[Measure]) -> str:
    """Return the name; raise 422 if the job has no such measure, or its values are in no theta sketch."""
    known = {one.name: one for one in measures}
    names = [one.name for one in known.values() if one.sketch == THETA]
    if name not in names:
        what = "has no theta sketch" if name in known else "is not a measure of the job"
        remedy = ", ".join(names) or f"the job has none: declare a distinct with sketch: {THETA}"
        raise HTTPException(422, f"measure={name[:60]!r} {what}: {remedy}")
    return name


def token(text: str | None, generation: Generation) -> Token | None:
    """Return the token; raise 400 for an invalid one. `generation`: for the example in the error."""
    if text is None:
        return None
    try:
        return Token.parse(text)
    except (UsageError, ValueError):  # ValueError: a number of thousands of digits
        raise HTTPException(
            400, f"at_least={text[:80]!r} is not a token; one looks like {generation}:42"
        ) from None


def hint(lower_ms: int | None) -> dict[str, str]:
    """Return a hint for an answer that lacks evicted windows; empty without any."""
    if lower_ms is None:
        return {}
    text = f"windows that end at or before {iso(lower_ms)} were evicted from this view (the job's max_bytes)"
    return {"hint": text}


def cursor(text: str | None, agreed: bytes) -> tuple[int, bytes | None]:
    """Return the peer and the position at which a scan continues; raise 400 for an invalid cursor. `agreed`: the
    mark of the division of partitions. Under another division the scan would lose or repeat rows.
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
        raise HTTPException(400, "after: not a cursor; pass the `next` of the previous page, unchanged") from None
    mark, rest = plain[: len(agreed)], plain[len(agreed) :]
    if mark != agreed:
        raise HTTPException(
            400, "after: the division of the partitions has changed since that page: start the scan again"
        )
    return int.from_bytes(rest[:_TURN_BYTES], "big"), rest[_TURN_BYTES:] or None


def place(text: str | None) -> bytes | None:
    """Return the position of a scan that spans all owners at once; raise 400 for an invalid cursor."""
    if text is None:
        return None
    try:
        if len(text) > _CURSOR_MAX:
            raise ValueError
        return base64.urlsafe_b64decode(text.encode("ascii"))
    except (ValueError, binascii.Error):
        raise HTTPException(400, "after: not a cursor; pass the `next` of the previous page, unchanged") from None


def cursor_text(agreed: bytes, turn: int, storage: bytes | None) -> str | None:
    """Return an opaque cursor. Empty `storage`: from that peer's first row; None: the scan has ended."""
    if storage is None:
        return None
    return base64.urlsafe_b64encode(agreed + turn.to_bytes(_TURN_BYTES, "big") + storage).decode().rstrip("=")
