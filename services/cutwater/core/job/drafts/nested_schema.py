"""Avro fields for the objects and lists in JSON events, inferred from samples."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from cutwater.core.events.schema_inference import (
    FIELDS_MAX,
    LEVELS_MAX,
    alike_but_for_case,
    avro_field,
    avro_kind,
    is_name,
    plain_kind,
)
from cutwater.core.job.field_paths import Steps


def infer_nested(
    events: Sequence[Mapping[str, Any]], space: str, times: Iterable[Steps] = ()
) -> list[dict[str, Any]]:
    """Return a nullable field for each object and list of events; records are in a namespace of their place.

    What is an object in some events alone, or differs from another name in case alone, has no field. At most
    FIELDS_MAX names are looked at. `space`: the name of the events' record. `times`: what the user declares
    as times; 0 stands for any element.
    """
    names = dict.fromkeys(name for one in events for name in one)
    plain = {name for one in events for name, value in one.items() if not isinstance(value, dict | list | None)}
    others = plain.union(alike_but_for_case(names))
    nested = [{name: value for name, value in one.items() if name not in others} for one in events]
    return _Inference(frozenset(times)).fields(nested, (), space)


class _Inference:
    def __init__(self, times: Collection[Steps]) -> None:
        self._times = times
        self._left = FIELDS_MAX

    def fields(self, objects: Sequence[Mapping[str, Any]], at: Steps, space: str) -> list[dict[str, Any]]:
        names = dict.fromkeys(name for one in objects for name in one)
        alike = frozenset(alike_but_for_case(names))
        made = []
        for name in names:
            self._left -= 1
            if self._left < 0:
                break
            if name not in alike and is_name(name):
                values = [one[name] for one in objects if one.get(name) is not None]
                if (of := self._type(values, (*at, name), name, space)) is not None:
                    made.append(avro_field(name, of))
        return made

    def _type(self, values: Sequence[Any], at: Steps, name: str, space: str) -> Any:
        """Return the Avro type of values that are not null; None if they have no common one."""
        if len(at) > LEVELS_MAX + 1 or not values:
            return None
        if all(isinstance(one, dict) for one in values):
            inside = self.fields(values, at, f"{space}.{name}")
            return {"type": "record", "name": name, "namespace": space, "fields": inside} if inside else None
        if all(isinstance(one, list) for one in values):
            elements = [one for value in values for one in value if one is not None]
            of = self._type(elements, (*at, 0), name, space)
            return {"type": "array", "items": ["null", of]} if of is not None else None
        kind, _ = plain_kind(name, values, at in self._times)
        return avro_kind(kind) if kind else None


def keep_paths(fields: Iterable[Mapping[str, Any]], paths: Collection[Steps]) -> list[dict[str, Any]]:
    """Return the fields, and inside of them those, that paths lead to: each costs time with every event."""
    kept = []
    for one in fields:
        inside = [steps[1:] for steps in paths if steps[:1] == (one["name"],)]
        if inside:
            kept.append({**one, "type": ["null", _keep_inside(one["type"][1], inside)]})
    return kept


def _keep_inside(node: Any, paths: Collection[Steps]) -> Any:
    if not isinstance(node, dict):
        return node
    if node["type"] == "record":
        return {**node, "fields": keep_paths(node["fields"], paths)}
    if node["type"] == "array":
        return {**node, "items": ["null", _keep_inside(node["items"][1], [steps[1:] for steps in paths])]}
    return node
