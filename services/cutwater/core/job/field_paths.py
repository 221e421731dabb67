"""Paths to values inside of an event: `payload.user.id`, `tags['region']`, `items[0].sku`.

They are Spark's SQL, and the only expressions that are evaluated without Spark too. A test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from cutwater.core.errors import UsageError
from cutwater.core.events.avro_types import Schema
from cutwater.core.job.job import Job
from cutwater.core.job.measures import TIMES, FieldType
from cutwater.core.util.suggestions import closest, listed, safe, value_text

Steps = tuple[str | int, ...]
"""Names of fields of a record or values of a map, and indexes of an array's elements."""
STEPS_MAX = 50
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|`(?:[^`]|``)+`")
_STEP = re.compile(
    r"\.(?P<name>[A-Za-z_][A-Za-z0-9_]*|`(?:[^`]|``)+`)"
    r"|\[(?P<index>[0-9]{1,9})\]"
    r"""|\['(?P<key>(?:[^'\\]|\\['"\\])*)'\]|\["(?P<other>(?:[^"\\]|\\['"\\])*)"\]"""
)
_ESCAPE, _TO_ESCAPE, _ESCAPED = re.compile(r"\\(.)"), re.compile(r"(['\\])"), r"\\\1"
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LITERALS = frozenset({"null", "true", "false"})
"""What these words are in SQL, even if there is a field of that name."""
_SPARKS_OWN = frozenset({"date", "local-timestamp-millis", "local-timestamp-micros"})
"""Logical types that Spark reads as its own: as the bare int or long they would fail in the running query."""
_OF_COLUMNS = {
    **{one: one for one in ("boolean", "int", "long", "float", "double", "string", "bytes", "date")},
    **{one: "timestamp-micros" for one in TIMES},
    **{one: "bytes" for one in ("fixed", "uuid")},
}


class NoElementError(LookupError):
    """An array has no element of a path's index. For Spark it is an error, and the event a dead letter."""


class PathTarget(NamedTuple):
    """What a path leads to in a schema."""

    path: str
    """The path with the schema's names."""
    steps: Steps
    node: Any
    """Its type, a node of the schema."""


def parse_path(sql: str) -> Steps | None:
    """Return the steps of an expression that is a path; None for others."""
    text = sql.strip()
    first = _NAME.match(text)
    if first is None or first[0].lower() in _LITERALS or "${" in text:  # Spark replaces ${…} by settings
        return None
    steps: list[str | int] = [_unquoted(first[0])]
    at = first.end()
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None or len(steps) == STEPS_MAX:
            return None
        steps.append(_step(found))
        at = found.end()
    return tuple(steps)


def _step(found: re.Match[str]) -> str | int:
    if found["index"]:
        return int(found["index"])
    if found["name"]:
        return _unquoted(found["name"])
    return _ESCAPE.sub(r"\1", found["other"] if found["key"] is None else found["key"])


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def _field_sql(name: str) -> str:
    plain = _PLAIN.fullmatch(name) and name.lower() not in _LITERALS
    return name if plain else f"`{name.replace('`', '``')}`"


def _step_sql(kind: str, step: str | int) -> str:
    """Return a step as SQL. `kind`: what it is from, a record, map or array."""
    if isinstance(step, int):
        return f"[{step}]"
    return f".{_field_sql(step)}" if kind == "record" else f"['{_TO_ESCAPE.sub(_ESCAPED, step)}']"


def value_at(event: Mapping[str, Any], steps: Sequence[str | int]) -> Any:
    """Return a path's value as Spark does: None if anything on the way is null, or a map lacks the name.

    Raises NoElementError if an array lacks the element. `steps`: with the schema's names.
    """
    value: Any = event
    for one in steps:
        value = value_inside(value, one)
    return value


def value_inside(value: Any, step: str | int) -> Any:
    """Return the value one step further. Raises NoElementError."""
    if value is None:
        return None
    if not isinstance(step, int):
        return value.get(step)
    if step >= len(value):
        raise NoElementError(step)
    return value[step]


def find_target(schema: Schema, steps: Steps, start: PathTarget | None = None) -> PathTarget:
    """Return what a path leads to, from an event or from `start`. Raises UsageError if there is no such value.

    Names of fields are found without regard to case, as Spark finds them.
    """
    found = start or PathTarget("", (), schema.root)
    for one in steps:
        found = target_inside(schema, found, one)
    return found


def target_inside(schema: Schema, of: PathTarget, step: str | int) -> PathTarget:
    """Return what is one step further. Raises UsageError as `find_target`."""
    kind = kind_of(schema, of.node)
    walk: _Walk = _WALKS.get(kind, _no_walk)
    found, node = walk(schema, of.path, of.node, step)
    path = of.path + _step_sql(kind, found) if of.path else _field_sql(found)
    return PathTarget(path, (*of.steps, found), node)


def bare(node: Any) -> Any:
    """Return the type of a value that is not null; a union of several others stays one."""
    others = [one for one in node if one != "null"] if isinstance(node, list) else [node]
    return others[0] if len(others) == 1 else others


def kind_of(schema: Schema, node: Any) -> str:
    """Return `record`, `map`, `array`, `union` of several types, or the Avro type of a plain value."""
    inner = bare(node)
    return "union" if isinstance(inner, list) else str(schema.type_of(inner)["type"])


def _field(schema: Schema, path: str, node: Any, step: str | int) -> tuple[str, Any]:
    fields = {one["name"]: one["type"] for one in schema.type_of(bare(node))["fields"]}
    alike = [one for one in fields if isinstance(step, str) and one.lower() == step.lower()]
    name = step if step in fields else alike[0] if len(alike) == 1 else None
    if name is not None:
        return str(name), fields[name]
    prefix = f"{path}." if path else ""
    meant = closest(step, fields) if isinstance(step, str) else ""
    advice = f"; did you mean '{prefix}{_field_sql(meant)}'?" if meant else ""
    whose = f"'{safe(path)}'" if path else "the schema"
    raise UsageError(f"{whose} has no field {value_text(step)}; it has: {listed(fields)}{advice}")


def _of_map(schema: Schema, path: str, node: Any, step: str | int) -> tuple[str, Any]:
    if isinstance(step, int):
        raise UsageError(f"'{safe(path)}' is a map, whose values have names: write {safe(path)}['NAME']")
    return step, schema.type_of(bare(node))["values"]


def _element(schema: Schema, path: str, node: Any, step: str | int) -> tuple[int, Any]:
    if not isinstance(step, int):
        wanted = _step_sql("record", step)
        raise UsageError(f"'{safe(path)}' is an array: name one of its elements, as in {safe(path)}[0]{wanted}")
    return step, schema.type_of(bare(node))["items"]


def _no_walk(schema: Schema, path: str, node: Any, _step: str | int) -> Any:
    kind = kind_of(schema, node)
    if kind == "union":
        raise UsageError(f"'{safe(path)}' is a union of several types, and a path does not choose between them")
    of = type_of(schema, node)
    raise UsageError(f"'{safe(path)}' is {of}, and no record, map or array: it has nothing inside")


_Walk = Callable[[Schema, str, Any, str | int], tuple[Any, Any]]
_WALKS: dict[str, _Walk] = {
    "record": _field,
    "map": _of_map,
    "array": _element,
}


def type_of(schema: Schema, node: Any) -> FieldType:
    """Return the type of a field as measures see it; of a nullable one that of its other branch."""
    inner = bare(node)
    if isinstance(inner, list):
        return FieldType("union")
    avro = schema.type_of(inner)
    logical = avro.get("logicalType")
    if logical == "decimal" and "precision" in avro:  # otherwise Avro ignores the logical type
        return FieldType("decimal", avro["precision"], avro.get("scale", 0))
    if logical in TIMES | _SPARKS_OWN or (logical == "uuid" and avro["type"] == "fixed"):
        return FieldType(str(logical))
    return FieldType("string" if avro["type"] == "enum" else str(avro["type"]))


def column_type(schema: Schema, node: Any) -> FieldType | None:
    """Return the type of a computed column that is a path to this; None if no column may be it."""
    of = type_of(schema, node)
    if of.name == "decimal":
        return of
    inner = bare(node)
    if isinstance(inner, dict) and inner.get("logicalType") == "time-micros":
        return None
    return FieldType(_OF_COLUMNS[of.name]) if of.name in _OF_COLUMNS else None


def column_paths(job: Job) -> dict[str, Steps] | None:
    """Return the paths of a job's computed columns; none if it has no columns. None if only Spark can tell which
    events count and with which values: for a condition, elements, a function, or another expression or a cast."""
    if job.where or job.explode or job.transform:
        return None
    schema, found = Schema.of(job.event_schema), {}
    for one in job.columns:
        steps = parse_path(one.sql)
        try:
            target = find_target(schema, steps) if steps else None
        except UsageError:
            return None
        if target is None or column_type(schema, target.node) != one.type:
            return None
        found[one.name] = target.steps
    return found
