"""An Avro schema for JSON events, inferred from samples: the kinds of flat fields, and why others are left out.

A sample proves that a value occurs, never that another does not. So whole numbers become long, and every field
except the key and the event time may be missing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cutwater.core.events.json_records import iso_micros, tokens
from cutwater.core.events.rejection import YEARS, Flaw

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_TIME_WORDS = re.compile(r"(^|_)(at|ts|time|timestamp|date|datetime|when|created|updated|occurred)($|_)")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
NESTED_SHOWN = 8
_FINE = re.compile(r"\.[0-9]{4,}")
LONG_MAX = 2**63 - 1
_MS = (946_684_800_000, 4_102_444_800_000)
"""The years 2000 to 2099 in milliseconds."""
FIELDS_MAX = 500
LEVELS_MAX = 7
"""Objects and lists inside of each other in which fields are looked for."""


@dataclass(frozen=True)
class Inferred:
    """Kinds by field, in the order of first appearance, and the fields that are left out."""

    kinds: Mapping[str, str]
    always: frozenset[str]
    """Fields that are present and not null in every sample."""
    left_out: Sequence[tuple[str, str]]
    placeholders: frozenset[str] = frozenset()
    """Times of which some stand for none, such as 9999-12-31T23:59:59Z: no event may have them."""

    def schema(
        self, name: str, required: Iterable[str] = (), nested: Sequence[Mapping[str, Any]] = ()
    ) -> dict[str, Any]:
        """Return the record schema. `required`: fields that are not nullable if every sample has them. Other
        fields with placeholders are texts, as each of these would reject its event.

        `nested`: further fields, of what holds others.
        """
        firm = frozenset(required) & self.always
        kinds = {**self.kinds, **dict.fromkeys(self.placeholders.difference(required), "string")}
        flat = [avro_field(one, avro_kind(kind), one in firm) for one, kind in kinds.items()]
        return {
            "type": "record",
            "name": name,
            "doc": "Inferred from samples by 'cutwater init': check it before you rely on it.",
            "fields": [*flat, *nested],
        }


def infer(events: Sequence[Mapping[str, Any]], times: Iterable[str] = ()) -> Inferred:
    """Infer the types of the fields of `events`. `times`: fields that the user declares as times."""
    told = frozenset(times)
    kinds: dict[str, str] = {}
    placeholders: set[str] = set()
    left_out: list[tuple[str, str]] = []
    names = list(dict.fromkeys(name for event in events for name in event))
    first = {name.lower(): name for name in reversed(names)}
    for name in names[:FIELDS_MAX]:
        values = [event[name] for event in events if event.get(name) is not None]
        kind, why = plain_kind(name, values, name in told)
        if not why and first[name.lower()] != name:
            why = f"it differs from '{first[name.lower()]}' in case alone, which Spark does not distinguish"
        if kind and not why:
            kinds[name] = kind
            if any(map(_is_placeholder, values)) and kind.startswith("timestamp"):
                placeholders.add(name)
        else:
            left_out.append((name, why))
    left_out += [(name, f"beyond the first {FIELDS_MAX} fields") for name in names[FIELDS_MAX:]]
    always = frozenset(name for name in kinds if all(event.get(name) is not None for event in events))
    return Inferred(kinds, always, left_out, frozenset(placeholders))


def avro_kind(kind: str) -> Any:
    return {"type": "long", "logicalType": kind} if kind.startswith("timestamp") else kind


def avro_field(name: str, type_: Any, firm: bool = False) -> dict[str, Any]:
    """`firm`: the field is never null."""
    return {"name": name, "type": type_} if firm else {"name": name, "type": ["null", type_], "default": None}


def plain_kind(name: str, values: Sequence[Any], told: bool) -> tuple[str, str]:
    """Return the kind of a field with these values, none of them null, or "" and why it has none.

    `told`: the user says that it is a time.
    """
    seen = {_json_type(one) for one in values}
    if why := _unfit(name, seen):
        return "", why + _nested(values)
    if seen <= {"number", "whole number"}:
        return _number(name, values, seen, told)
    return (_text(values) if seen == {"text"} else "boolean"), ""


def _unfit(name: str, seen: set[str]) -> str:
    if not is_name(name):
        return "Avro does not allow its name, or the name starts with two underscores"
    if not seen:
        return "it was always null"
    if seen & {"an object", "a list"}:
        what = " or ".join(sorted(seen & {"an object", "a list"}))
        return f"it is {what}, of which the draft uses nothing: describe it in the schema to use it"
    if len(seen) > 1 and not seen <= {"number", "whole number"}:
        return f"it is sometimes {' and sometimes '.join(sorted(seen))}"
    return ""


def is_name(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) and not name.startswith("__")


def _nested(values: Sequence[Any]) -> str:
    """Return a note with the fields of objects among the values, which are left out too."""
    names = list(dict.fromkeys(one for value in values if isinstance(value, dict) for one in value))
    if not names:
        return ""
    more = f" and {len(names) - NESTED_SHOWN} more" if len(names) > NESTED_SHOWN else ""
    return f"; it has {', '.join(names[:NESTED_SHOWN])}{more}"


def alike_but_for_case(names: Iterable[str]) -> list[str]:
    """Return the names that differ from another one in case alone, in their order."""
    every = list(names)
    count = Counter(one.lower() for one in every)
    return [one for one in every if count[one.lower()] > 1]


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    names = {int: "whole number", float: "number", str: "text", dict: "an object", list: "a list"}
    return names[type(value)]


def _number(name: str, values: Sequence[Any], seen: set[str], told: bool) -> tuple[str, str]:
    if "number" in seen:
        return "double", ""
    if any(not -LONG_MAX - 1 <= one <= LONG_MAX for one in values):
        return "", "it exceeds 64 bits"
    if told or sounds_like_time(name):
        for kind, unit in (("timestamp-millis", 1), ("timestamp-micros", 1_000)):
            if all(_MS[0] * unit <= one < _MS[1] * unit for one in values):
                return kind, ""
    return "long", ""


def _text(values: Sequence[str]) -> str:
    if any(iso_micros(one) is None for one in values):
        return "string"
    return "timestamp-micros" if any(_FINE.search(one) for one in values) else "timestamp-millis"


def _is_placeholder(value: Any) -> bool:
    micros = iso_micros(value) if isinstance(value, str) else None
    return micros is not None and not YEARS[0] <= micros <= YEARS[1]


def sounds_like_time(name: str) -> bool:
    return bool(_TIME_WORDS.search(_CAMEL.sub("_", name).lower()))


def time_ms(value: Any, kind: str) -> int | None:
    """Return an event time in ms since 1970, from ISO 8601 or a number in the unit of `kind`; None for others."""
    if isinstance(value, str):
        micros = iso_micros(value)
        return None if micros is None else micros // 1_000
    if isinstance(value, int) and not isinstance(value, bool):
        return value // 1_000 if kind == "timestamp-micros" else value
    return None


def parse_event(value: bytes | None) -> dict[str, Any] | Flaw:
    """Return a JSON object as a dict, or the flaw for which the driver rejects it."""
    found = tokens(value)
    return found if isinstance(found, Flaw) or value is None else dict(json.loads(value))
