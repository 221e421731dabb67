"""The body of a request for the different values of several rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from cutwater.rehydrator.http_api.keys_body import Key, Time, span_of

SETS_MAX, SET_ROWS_MAX = 32, 1_000
SetPlace = tuple[str, str | int | None, str | int | None]
"""Key, from and to of a set, as they were requested."""


class RowSet(BaseModel):
    """The values of all windows of a key that start in [from, to)."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    key: Key
    from_: Time = Field(None, alias="from", description="First window start: ISO 8601 or ms since 1970.")
    to: Time = Field(None, description="Window starts before this: ISO 8601 or ms since 1970.")

    @property
    def place(self) -> SetPlace:
        return self.key, self.from_, self.to

    @property
    def shown(self) -> dict[str, Any]:
        """The set in an answer."""
        return self.model_dump(by_alias=True)


class Sets(BaseModel):
    """Sets of values, at most 32 in all, of at most 1,000 rows."""

    model_config = ConfigDict(extra="forbid", strict=True)

    measure: str = Field(description="A `distinct` with `sketch: theta`, as the job file names it.")
    of: list[RowSet] = Field(
        min_length=1, max_length=SETS_MAX, description="Sets: values that are in any of them count."
    )
    and_: list[RowSet] = Field(
        [], alias="and", max_length=SETS_MAX, description="Sets: only values that are in every one of them count."
    )
    not_: list[RowSet] = Field(
        [], alias="not", max_length=SETS_MAX, description="Sets: values that are in any of them do not count."
    )

    @model_validator(mode="after")
    def _require_few(self) -> Self:
        if (found := sum(map(len, self.by_role.values()))) > SETS_MAX:
            raise ValueError(f"{found} sets in of, and, not; at most {SETS_MAX} are allowed")
        return self

    @property
    def by_role(self) -> dict[str, list[RowSet]]:
        return {"of": self.of, "and": self.and_, "not": self.not_}

    @property
    def every(self) -> list[RowSet]:
        """Each set once."""
        return list(dict.fromkeys(one for some in self.by_role.values() for one in some))

    def spans(self) -> list[tuple[str, int | None, int | None]]:
        """Return key and bounds of the window starts of each set; raise 422 for an invalid time."""
        return [(one.key, *span_of(one)) for one in self.every]

    def with_keys(self, stored: Callable[[str], str]) -> Sets:
        """Return the same sets with their keys as they are stored."""
        made = {
            role: [one.model_copy(update={"key": stored(one.key)}) for one in some]
            for role, some in self.by_role.items()
        }
        return self.model_copy(update={"of": made["of"], "and_": made["and"], "not_": made["not"]})

    def share(self, sets: list[RowSet]) -> Sets:
        """Return the request for an owner of some of the sets: it reads them, whatever they are for."""
        return self.model_copy(update={"of": sets, "and_": [], "not_": []})
