"""The parameters that several routes share, with the limits that OpenAPI shows."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Depends, Path, Query
from pydantic import Field
from pydantic.config import JsonDict
from starlette.convertors import PathConvertor, register_url_convertor

from cutwater.rehydrator.http_api import parsing

LIMIT_DEFAULT, LIMIT_MAX = 1_000, 10_000
STORED_LIMIT_MAX = 100_000
"""As many rows as a page of a scan examines: for rankings, which need all rows at one milestone."""
TOP_DEFAULT, TOP_MAX = 10, 1_000
WAIT_MS_DEFAULT, WAIT_MS_MAX = 5_000, 30_000

# Formats describe what a schema cannot check: for people and for request generators.
KEY_FORMAT: JsonDict = {"format": "group-key"}
Moment = Annotated[str, Field(json_schema_extra={"format": "iso8601-or-ms"})]
Token = Annotated[str, Field(json_schema_extra={"format": "token"})]
Cursor = Annotated[str, Field(json_schema_extra={"format": "cursor"})]

KeyPath = Annotated[str, Path(json_schema_extra=KEY_FORMAT, description="The group key, URL-encoded.")]
KeyName = Annotated[
    str | None,
    Query(json_schema_extra=KEY_FORMAT, description="Only the windows of this key, URL-encoded: same as by path."),
]
Key64 = Annotated[
    str | None,
    Query(
        json_schema_extra={"format": "key64"},
        description="The key's UTF-8 in base64 (URL alphabet, with or without `=`): for long keys, or keys that "
        "a proxy would change.",
    ),
]


async def _key_of(key: KeyName = None, key64: Key64 = None) -> str | None:
    return parsing.key(key, key64)


AskedKey = Annotated[str | None, Depends(_key_of)]
"""The key in the query of a route of rows; None without one."""
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="At most this many rows.")]
StoredLimit = Annotated[int, Query(ge=1, le=STORED_LIMIT_MAX, description="At most this many rows.")]
From = Annotated[Moment | None, Query(alias="from", description="First window start: ISO 8601 or ms since 1970.")]
To = Annotated[Moment | None, Query(description="Window starts before this: ISO 8601 or ms since 1970.")]
AtLeast = Annotated[Token | None, Query(description="Wait until the view has reached this token.")]
AtLeastEach = Annotated[
    list[Token] | None,
    Query(
        alias="at_least",
        max_length=16,
        description="Wait until the view of the token's region has reached it; one token per region.",
    ),
]
Partial = Annotated[
    bool,
    Query(description="If true, regions that do not answer are left out and named in `missing`. Else 503."),
]
WaitMs = Annotated[int, Query(ge=0, le=WAIT_MS_MAX, description="How long to wait for `at_least`, ms.")]
After = Annotated[Cursor | None, Query(description="The `next` of the previous page.")]
Shards = Annotated[
    str | None,
    Query(
        pattern=f"^{parsing.SHARDS_PATTERN}$",
        description="Only keys of these shards of the job: a range (`0-127`) or one number.",
    ),
]
Prefix = Annotated[str, Query(description="Only keys that start with this.")]
MeasureName = Annotated[
    str, Query(description="The measure to rank by, as the job file names it; none whose values are lists.")
]
TopLimit = Annotated[int, Query(ge=1, le=TOP_MAX, description="Number of rows.")]
Direction = Annotated[Literal["desc", "asc"], Query(description="`desc`: largest first; `asc`: smallest first.")]


class KeyConvertor(PathConvertor):
    """Matches line breaks, unlike Starlette's `{key:path}`, for which `JFK\\n` got the answer of `JFK`."""

    regex = "(?s:.*)"


register_url_convertor("key", KeyConvertor())
STATE, STORED, GLOBAL = "/v1/state/{key:key}", "/v1/stored/{key:key}", "/v1/global/state/{key:key}"
