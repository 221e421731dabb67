"""docs/JSON.md and docs/json/: the JSON of each verb, from `docs._generate.shapes`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from docs._generate.shapes import SHAPES, job, regions, skew, state
from pydantic import ConfigDict, TypeAdapter

_HEAD = """# JSON of the command line

This page lists what each verb prints with `--json`. {generated}
Beside this page, `json/VERB.schema.json` is the JSON Schema of each verb.

- A listed field is always present, unless its type says "optional". A later version may have more fields, which
  the schema does not allow: validate with the schema of the version that you run.
- A token, a generation and a path are texts. A hash is hexadecimal. A cut is an object of `topic/partition` and
  the next offset.
- A name that ends in `_ms` is a duration in milliseconds or a time in milliseconds since 1970. Other times are
  ISO 8601 in UTC; outside the years 1 to 9999 they are written as `N ms`.
- NaN and the infinities are the texts `"NaN"`, `"Infinity"` and `"-Infinity"`: JSON has no such numbers. The
  values of measures are written as on the output topic ([FORMAT.md](FORMAT.md)).
- Standard output holds nothing but JSON; warnings are on standard error. Control characters are escaped as
  `\\u001b`.
- Tables show the same facts for people. Their columns and words may change in any version. In a pipe, with
  `NO_COLOR` or in a CI run (`CI`) they are plain text. In a pipe and in a CI run each row is one line.
"""


def json_page(generated: str) -> str:
    """Return the page. `generated`: the text on how it is generated."""
    return "\n".join([_HEAD.format(generated=generated), *(_section(verb) for verb in SHAPES)])


def schema_files() -> dict[str, str]:
    return {f"json/{verb.replace(' ', '-')}.schema.json": _file(verb) for verb in SHAPES}


@cache
def schema(verb: str) -> dict[str, Any]:
    """Return the JSON Schema of what a verb prints, without additional fields."""
    for module in (job, regions, skew, state):
        for one in vars(module).values():
            if isinstance(one, type) and hasattr(one, "__total__"):
                # Set here, so that verbs need not import pydantic.
                one.__pydantic_config__ = ConfigDict(extra="forbid", use_attribute_docstrings=True)  # type: ignore[attr-defined]
    made: dict[str, Any] = TypeAdapter(SHAPES[verb]).json_schema()
    for one in (made, *made.get("$defs", {}).values()):
        for field in one.get("properties", {}).values():
            field.pop("title", None)  # repeats the name
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def _file(verb: str) -> str:
    return json.dumps(schema(verb), indent=2) + "\n"


def _section(verb: str) -> str:
    made = schema(verb)
    options = made.get("anyOf", [made])
    parts = [f"## cutwater {verb}\n"]
    for option in options:
        one, path = _resolved(option, made), ""
        if one.get("type") == "array":
            one, path = _resolved(one["items"], made), "[]."
        if len(options) > 1:
            parts.append(f"{one.get('description') or one['title']}:\n")
        rows = "\n".join(f"| `{name}` | {kind} | {meaning} |" for name, kind, meaning in _fields(one, made, path))
        parts.append(f"| field | type | meaning |\n|---|---|---|\n{rows}\n")
    return "\n".join(parts)


def _fields(one: dict[str, Any], made: dict[str, Any], path: str) -> Iterator[tuple[str, str, str]]:
    required = one.get("required", [])
    for name, field in one["properties"].items():
        kind = _kind(field, made) + ("" if name in required else ", optional")
        yield f"{path}{name}", kind, " ".join(field.get("description", "").split())
        for step, inner in _inner(field, made):
            yield from _fields(inner, made, f"{path}{name}{step}.")


def _inner(field: dict[str, Any], made: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each object with fields inside a field, and the step that leads to it."""
    for option in field.get("anyOf", [field]):
        one = _resolved(option, made)
        if "properties" in one:
            yield "", one
        elif "items" in one:
            yield from ((f"[]{step}", inner) for step, inner in _inner(one["items"], made))
        elif isinstance(values := one.get("additionalProperties"), dict):
            yield from ((f".*{step}", inner) for step, inner in _inner(values, made))


def _kind(field: dict[str, Any], made: dict[str, Any]) -> str:
    if "anyOf" in field:
        return " or ".join(_kind(one, made) for one in field["anyOf"])
    one = _resolved(field, made)
    if "const" in one:
        return f"`{json.dumps(one['const'])}`"
    if "enum" in one:
        return ", ".join(f"`{json.dumps(value)}`" for value in one["enum"])
    if "items" in one:
        return f"list of {_kind(one['items'], made)}"
    if isinstance(values := one.get("additionalProperties"), dict):
        return f"object of {_kind(values, made)}"
    return {"string": "text", "null": "null"}.get(one.get("type", ""), one.get("type") or "any")


def _resolved(one: dict[str, Any], made: dict[str, Any]) -> dict[str, Any]:
    reference = one.get("$ref")
    found: dict[str, Any] = made["$defs"][reference.rpartition("/")[2]] if reference else one
    return found
