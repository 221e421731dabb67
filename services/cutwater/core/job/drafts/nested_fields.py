"""Fields inside of an event's records, maps and arrays, by path, for drafts from a schema and sampled events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from cutwater.core.errors import UsageError
from cutwater.core.events.avro_types import Schema
from cutwater.core.events.schema_inference import FIELDS_MAX, LEVELS_MAX
from cutwater.core.job.field_paths import (
    NoElementError,
    PathTarget,
    bare,
    column_type,
    find_target,
    kind_of,
    parse_path,
    target_inside,
    type_of,
    value_inside,
)
from cutwater.core.job.measures import ADDEND_DIGITS
from cutwater.core.util.suggestions import safe, value_text

NAMES_MAX, NAME_MAX = 20, 60
"""Names of a map that are offered, and their length."""


class NestedField(NamedTuple):
    kind: str
    """As a computed column."""
    stored_kind: str
    """As in the schema: a time has its unit."""
    values: Sequence[Any]
    """Of each event, or element: None if anything on the way is missing."""


def chosen_path(schema: Schema, text: str, element: PathTarget | None = None) -> str:
    """Return the path that a user means, with the schema's names; a flat field's name, and no path, as they are.

    `element`: of an array whose elements are events. Raises UsageError if the path leads to nothing.
    """
    steps = parse_path(text)
    if steps is None or len(steps) == 1:
        return text
    if element and steps[0] == element.path:
        return find_target(schema, steps[1:], element).path
    return find_target(schema, steps).path


def element_of(schema: Schema, text: str, name: str) -> tuple[PathTarget, PathTarget]:
    """Return the array that a path leads to, and an element of it under this name. Raises UsageError."""
    steps = parse_path(text)
    if steps is None:
        raise UsageError(f"{value_text(text)} is no path to an array, such as cart.items")
    array = find_target(schema, steps)
    if (kind := kind_of(schema, array.node)) != "array":
        raise UsageError(f"'{safe(array.path)}' is {kind}, and no array")
    return array, PathTarget(name, (name,), schema.type_of(bare(array.node))["items"])


def nested_fields(
    schema: Schema, events: Sequence[Mapping[str, Any]], chosen: Sequence[str] = ()
) -> dict[str, NestedField]:
    """Return what a computed column may be: the fields inside of records, the first elements of arrays, and the
    values of maps by the names that the events have. `chosen`: further paths, as `chosen_path` returns them."""
    root = PathTarget("", (), schema.root)
    fields = (target_inside(schema, root, one) for one in _steps(schema, root, ()))
    flat = ((one, values_at(events, one.steps)) for one in fields)
    leaves = (leaf for one, values in flat for leaf in _leaves(schema, one, values, 1))
    found = _usable(schema, (one for one in leaves if len(one[0].steps) > 1))
    for path in chosen:
        steps = parse_path(path)
        if steps and len(steps) > 1 and path not in found:
            at = find_target(schema, steps)
            found[path] = _field(schema, at, values_at(events, at.steps))
    return found


def element_fields(
    schema: Schema, element: PathTarget, values: Sequence[Any], chosen: Sequence[str] = ()
) -> dict[str, NestedField]:
    """Return what a column of an array's elements may be, as `nested_fields`. `values`: the elements."""
    found = _usable(schema, _leaves(schema, element, values, 1))
    named = [{element.path: one} for one in values]
    for path in chosen:
        steps = parse_path(path)
        if steps and steps[0] == element.path and path not in found:
            at = find_target(schema, steps[1:], element)
            found[path] = _field(schema, at, values_at(named, at.steps))
    return found


def _usable(schema: Schema, leaves: Iterable[tuple[PathTarget, Sequence[Any]]]) -> dict[str, NestedField]:
    found: dict[str, NestedField] = {}
    for at, values in islice(leaves, FIELDS_MAX):
        of = column_type(schema, at.node)
        # Decimals with no digit before the point leave no room for a sum.
        if of and of.scale < ADDEND_DIGITS and parse_path(at.path) == at.steps:
            found[at.path] = _field(schema, at, values)
    return found


def _field(schema: Schema, at: PathTarget, values: Sequence[Any]) -> NestedField:
    stored = type_of(schema, at.node)
    return NestedField((column_type(schema, at.node) or stored).name, stored.name, values)


def _leaves(
    schema: Schema, of: PathTarget, values: Sequence[Any], level: int
) -> Iterator[tuple[PathTarget, Sequence[Any]]]:
    """Yield what is inside and has nothing inside itself, in the order of the schema, with its values."""
    steps = _steps(schema, of, values) if level <= LEVELS_MAX else []
    if not steps:
        yield of, values
    for one in steps:
        inner = [_value(each, one) for each in values]
        yield from _leaves(schema, target_inside(schema, of, one), inner, level + 1)


def _steps(schema: Schema, of: PathTarget, values: Sequence[Any]) -> Sequence[str | int]:
    kind = kind_of(schema, of.node)
    if kind == "record":
        return [one["name"] for one in schema.type_of(bare(of.node))["fields"]]
    if kind == "map":
        names = (name for one in values if one for name in one if name.isprintable() and len(name) <= NAME_MAX)
        return list(dict.fromkeys(names))[:NAMES_MAX]
    return [0] if kind == "array" and any(values) else []


def values_at(events: Sequence[Mapping[str, Any]], steps: Sequence[str | int]) -> Sequence[Any]:
    """Return a path's value of each event, None if anything on the way is missing."""
    values: Sequence[Any] = events
    for one in steps:
        values = [_value(each, one) for each in values]
    return values


def _value(value: Any, step: str | int) -> Any:
    try:
        return value_inside(value, step)
    except NoElementError:
        return None
