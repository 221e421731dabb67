"""The body of a request for several keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Protocol, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from cutwater.rehydrator.http_api import parsing
from cutwater.rehydrator.http_api.parameters import KEY_FORMAT, Moment

KEYS_MAX = 1_000
KEY_ROWS_DEFAULT, KEY_ROWS_MAX = 100, 1_000
ROWS_MAX = 10_000


def _require_text(text: str) -> str:
    """Raise ValueError for half a surrogate pair, which JSON can express and UTF-8 cannot."""
    text.encode()
    return text


class Spanned(Protocol):
    """Windows of a span of time."""

    @property
    def from_(self) -> str | int | None: ...

    @property
    def to(self) -> str | int | None: ...


def span_of(asked: Spanned) -> tuple[int | None, int | None]:
    """Return the bounds of the window starts, [first, end) in ms; raise 422 for an invalid time."""
    first, end = (None if one is None else str(one) for one in (asked.from_, asked.to))
    return parsing.time_ms("from", first), parsing.time_ms("to", end)


Key = Annotated[str, AfterValidator(_require_text), Field(json_schema_extra=KEY_FORMAT)]
Time = Annotated[Moment, AfterValidator(_require_text)] | int | None


class Keys(BaseModel):
    """Keys, a span of their windows, and limits on the rows."""

    model_config = ConfigDict(extra="forbid", strict=True)

    keys: list[Key] = Field(min_length=1, max_length=KEYS_MAX, description="A key given twice is answered once.")
    from_: Time = Field(None, alias="from", description="First window start: ISO 8601 or ms since 1970.")
    to: Time = Field(None, description="Window starts before this: ISO 8601 or ms since 1970.")
    limit: int = Field(KEY_ROWS_DEFAULT, ge=1, le=KEY_ROWS_MAX, description="At most this many rows per key.")
    rows: int = Field(ROWS_MAX, ge=1, le=ROWS_MAX, description="At most this many rows in all.")

    def with_keys(self, stored: Callable[[str], str]) -> Self:
        """Return the same request with its keys as they are stored, each once."""
        return self.model_copy(update={"keys": list(dict.fromkeys(map(stored, self.keys)))})
