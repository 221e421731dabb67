"""The fields and columns that a job file names below `source`: whether they exist and fit their use."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from cutwater.adapters.job_files.document.yaml_reader import Place
from cutwater.adapters.job_files.errors import JobErrors
from cutwater.adapters.job_files.models import GROUP, JobModel
from cutwater.core.events.key_columns import (
    BOOLEAN,
    DATE,
    KEY_COLUMNS_MAX,
    NULL,
    NUMBER,
    PARAMETERS,
    TEXT,
    UUID,
    KeyColumn,
)
from cutwater.core.job.job import TAKEN_COLUMNS
from cutwater.core.job.measures import TIMES, FieldType
from cutwater.core.util.suggestions import listed, value_text

COLUMNS: Place = ("source", "columns")
ELEMENTS: Place = ("source", "explode", "columns")
TRANSFORMED: Place = ("source", "transform", "columns")
ARRAY: Place = ("source", "explode", "array")
_KEY: Place = ("source", "key")
_NULL_KEY: Place = ("source", "null_key")
_KINDS = {"string": TEXT, "int": NUMBER, "long": NUMBER, "boolean": BOOLEAN, "date": DATE, "uuid": UUID}
_KEYS = frozenset({*_KINDS, "decimal"})
_ADVICE = {
    **dict.fromkeys(("float", "double"), "cast it to a decimal, as in cast({field} as decimal(18,2)),"),
    **dict.fromkeys(("bytes", "fixed"), "make a text of it, as in hex({field}),"),
    **dict.fromkeys(("record", "array", "map", "union"), "choose a part of it, as in {field}.name or {field}[0],"),
    **dict.fromkeys(TIMES, "make a date of it, as in to_date({field}), or a text"),
}
"""What to do about a field that is no key, by its type."""
Types = dict[str, FieldType]


class KeyOfFile(NamedTuple):
    """A job's key: a field or column with its kind, or a list of columns, and then no field."""

    field: str = ""
    kind: str = TEXT
    columns: tuple[KeyColumn, ...] | None = None


def compile_key(model: JobModel, types: Types, errors: JobErrors) -> KeyOfFile:
    """Check the key and return it.

    Where a null is a key, a single one is a list of one column: any plain text may be a value, so none is left.
    """
    grouped = model.source.null_key == GROUP
    names = model.source.key_list
    if names is None and not grouped:
        name = model.source.key
        check_field(types, _KEY, name, _KEYS, errors, _ADVICE)
        kind = _kind_of(types[name]) if name in types else TEXT
        return KeyOfFile(name, TEXT if kind == NUMBER else kind)
    if not errors.sound(_KEY):
        return KeyOfFile(columns=())
    if grouped and names == ():
        errors.add(_NULL_KEY, "the key has no column that could be null: leave it out")
    places = (
        {_KEY: model.source.key}
        if names is None
        else {(*_KEY, f"column {at}"): one for at, one in enumerate(names, 1)}
    )
    return KeyOfFile(columns=_columns(places, model, types, errors, grouped))


def _columns(
    places: Mapping[Place, str], model: JobModel, types: Types, errors: JobErrors, nullable: bool
) -> tuple[KeyColumn, ...]:
    """Check the columns of a list, by their place, and return them."""
    if len(places) > KEY_COLUMNS_MAX:
        errors.add(_KEY, f"has {len(places)} columns; allowed are {KEY_COLUMNS_MAX}")
        return ()
    seen: dict[str, str] = {}
    others = {one.lower(): one for one in (*model.measures, *model.derived)}
    taken = TAKEN_COLUMNS | PARAMETERS | ({NULL} if nullable else set())
    for place, name in places.items():
        alike = name.lower()  # Spark's column names are case-insensitive
        if alike in seen:
            errors.add(place, f"{value_text(name)} is in the list twice")
        elif alike in taken:
            text = f"{value_text(name)} is a column of each row, or a parameter of the API"
            errors.add(place, f"{text}: compute a column of another name in source.columns")
        elif alike in others:
            text = f"{value_text(name)} is also the name of a measure or derived value"
            errors.add(place, f"{text}, and rows show both: rename '{others[alike]}'")
        else:
            check_field(types, place, name, _KEYS, errors, _ADVICE)
        seen[alike] = name
    kinds = {name: _kind_of(types[name]) for name in places.values() if name in types}
    return tuple(KeyColumn(name, kind, nullable) for name, kind in kinds.items())


def check_time(of_record: Types, types: Types, field: str, errors: JobErrors) -> None:
    """Check the event time. An array's elements have that of their record, because a record is late as a whole."""
    place = ("source", "event_time")
    if field in types and field not in of_record:
        text = f"'{field}' is a column of an element, and all elements of a record have one time"
        errors.add(place, f"{text}: name a field of the event, or a column in source.columns")
    else:
        check_field(of_record, place, field, TIMES, errors)


def _kind_of(of: FieldType) -> str:
    return _KINDS.get(of.name, str(of))


def check_field(
    types: Types,
    place: Place,
    field: str,
    allowed: Collection[str],
    errors: JobErrors,
    advice: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Report a field that does not exist, or is of another type than these. `advice`: by type."""
    if not errors.sound(place, (*COLUMNS, field), (*ELEMENTS, field), (*TRANSFORMED, field)):
        return
    if field not in types:
        no_field(types, place, field, errors)
    elif (of := types[field]).name not in allowed:
        others = [name for name, one in types.items() if one.name in allowed]
        remedy = (
            f". To use it, {advice[of.name].format(field=field)} in source.columns" if of.name in advice else ""
        )
        errors.add(
            place,
            f"field '{field}' is {of}; allowed types: {', '.join(sorted(allowed))}{remedy}",
            others[0] if len(others) == 1 else "",
        )


def no_field(types: Types, place: Place, field: str, errors: JobErrors) -> None:
    """Report a field that does not exist."""
    if not errors.sound(ARRAY, TRANSFORMED):
        return  # it may be a column of the array's elements or of the function, which have no types yet
    text = f"the schema has no field {value_text(field)}; it has: {listed(types)}"
    errors.add(place, text, errors.meant(field, types))
