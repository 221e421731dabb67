"""The fields and columns that a job file names below `source`: whether they exist and fit their use."""

from __future__ import annotations

from collections.abc import Collection

from cutwater.adapters.job_files.errors import JobErrors
from cutwater.adapters.job_files.models import JobModel
from cutwater.adapters.job_files.yaml_reader import Place
from cutwater.core.events.key_columns import KEY_COLUMNS_MAX, NUMBER, PARAMETERS, TEXT, KeyColumn
from cutwater.core.job.job import TAKEN_COLUMNS
from cutwater.core.job.measures import FieldType
from cutwater.core.util.suggestions import listed, value_text

COLUMNS: Place = ("source", "columns")
_KEY: Place = ("source", "key")
_KEYS = frozenset({"string", "int", "long"})
Types = dict[str, FieldType]


def compile_key(model: JobModel, types: Types, errors: JobErrors) -> tuple[KeyColumn, ...] | None:
    """Check the key; return its columns if it is a list, else None."""
    names = model.source.key_list
    if names is None:
        check_field(types, _KEY, model.source.key, _KEYS, errors)
        return None
    if not errors.sound(_KEY):
        return ()
    if len(names) > KEY_COLUMNS_MAX:
        errors.add(_KEY, f"has {len(names)} columns; allowed are {KEY_COLUMNS_MAX}")
        return ()
    seen: dict[str, str] = {}
    others = {one.lower(): one for one in (*model.measures, *model.derived)}
    for at, name in enumerate(names, 1):
        place = (*_KEY, f"column {at}")
        alike = name.lower()  # Spark's column names are case-insensitive
        if alike in seen:
            errors.add(place, f"{value_text(name)} is in the list twice")
        elif alike in TAKEN_COLUMNS | PARAMETERS:
            text = f"{value_text(name)} is a column of each row, or a parameter of the API"
            errors.add(place, f"{text}: compute a column of another name in source.columns")
        elif alike in others:
            text = f"{value_text(name)} is also the name of a measure or derived value"
            errors.add(place, f"{text}, and rows show both: rename '{others[alike]}'")
        else:
            check_field(types, place, name, _KEYS, errors)
        seen[alike] = name
    kinds = {name: TEXT if types[name].name == "string" else NUMBER for name in names if name in types}
    return tuple(KeyColumn(name, kind) for name, kind in kinds.items())


def check_field(types: Types, place: Place, field: str, allowed: Collection[str], errors: JobErrors) -> None:
    """Report a field that does not exist, or is of another type than these."""
    if not errors.sound(place, (*COLUMNS, field)):
        return
    if field not in types:
        no_field(types, place, field, errors)
    elif types[field].name not in allowed:
        others = [name for name, one in types.items() if one.name in allowed]
        errors.add(
            place,
            f"field '{field}' is {types[field]}; allowed types: {', '.join(sorted(allowed))}",
            others[0] if len(others) == 1 else "",
        )


def no_field(types: Types, place: Place, field: str, errors: JobErrors) -> None:
    """Report a field that does not exist."""
    text = f"the schema has no field {value_text(field)}; it has: {listed(types)}"
    errors.add(place, text, errors.meant(field, types))
