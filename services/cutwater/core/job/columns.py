"""What a job file adds to its events between decoding and grouping: columns, elements of an array, a function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cutwater.core.job.measures import FieldType


@dataclass(frozen=True)
class ComputedColumn:
    """A column that each event gets by an expression over its fields."""

    name: str
    sql: str
    """In Spark's SQL."""
    type: FieldType
    """The value is cast to it."""


@dataclass(frozen=True)
class Explode:
    """The array whose elements are the events of a job: all elements of a record count, or none."""

    array: str
    """In Spark's SQL, over the event's fields, as the conditions and columns."""
    item: str
    """The name of an element in the condition and the columns."""
    where: str
    columns: tuple[ComputedColumn, ...]


@dataclass(frozen=True)
class TransformColumn:
    """A column that a user's function adds to each event."""

    name: str
    type: FieldType


@dataclass(frozen=True)
class Transform:
    """A user's function from DataFrame to DataFrame. The driver alone imports and calls it."""

    function: str
    """`module:name`."""
    columns: tuple[TransformColumn, ...]
    tables: tuple[tuple[str, str], ...] = ()
    """Names of tables that the function is given, and their files' paths."""
    folder: str = ""
    """Where its module is looked for first."""
    contents: tuple[tuple[str, str], ...] = ()
    """SHA-256 of the module's source and of each table, by name; without what this process cannot find."""

    @property
    def meaning(self) -> list[Any]:
        """Its part in the meaning of a row: what each process can tell that reads the job file."""
        columns = {one.name: str(one.type) for one in self.columns}
        return [self.function, columns, *([sorted(dict(self.tables))] if self.tables else [])]
