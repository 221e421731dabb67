"""The OpenAPI description: FastAPI's own, with the job's measures, key columns and token added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI

from cutwater.adapters.http.access import OPEN_PATHS
from cutwater.core.access.roles import Role
from cutwater.core.events.key_columns import BOOLEAN, DATE, NULL, NUMBER, UUID, KeyColumn
from cutwater.core.job.job import Job
from cutwater.core.job.measures import THETA, Measure
from cutwater.rehydrator.access import needed_role
from cutwater.rehydrator.http_api.models import WHY_FORBIDDEN, WHY_UNGUARDED, Problem

_JSON_TYPES: dict[str, list[str]] = {
    "int": ["integer"],
    "long": ["integer"],
    "float": ["number", "string"],  # NaN and the infinities are strings
    "double": ["number", "string"],
    "decimal": ["integer", "string"],  # fractions are strings, to keep every digit
    "boolean": ["boolean"],
}
"""JSON types of a measure's value by its Avro type; all others are strings."""


class Described(FastAPI):
    """An application that describes the job's measures as columns, and the required token."""

    def __init__(self, job: Job, guarded: bool, **options: Any) -> None:
        super().__init__(**options)
        self._measures = job.measures
        self._columns = job.key_columns or ()
        self._guarded = guarded

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            described = super().openapi()
            row = described["components"]["schemas"]["Row"]
            row["properties"] |= {
                one.name: {**_key_column(one), "description": "column of the key"} for one in self._columns
            }
            row["required"] += [one.name for one in self._columns]
            row["properties"] |= {one.name: _of(one) for one in self._measures}
            row["required"] += [one.name for one in self._measures]
            names = [one.name for one in self._measures if not one.length]
            row["additionalProperties"] = False
            for path in ("/v1/top", "/v1/global/top"):
                for one in described["paths"][path]["get"]["parameters"]:
                    if one["name"] == "measure":
                        one["schema"]["enum"] = names
            if thetas := [one.name for one in self._measures if one.sketch == THETA]:
                described["components"]["schemas"]["Sets"]["properties"]["measure"]["enum"] = thetas
            for path in ("/v1/state", "/v1/global/state"):
                described["paths"][path]["get"]["parameters"] += _parameters(self._columns)
            if self._guarded:
                _guard(described)
        return self.openapi_schema or {}


def _of(measure: Measure) -> dict[str, Any]:
    output = measure.output
    if measure.length:
        items = _item(output["items"])
        return {"type": ["array", "null"], "items": items, "description": measure.kind}
    kind = output.get("logicalType") if isinstance(output, dict) else output
    return {"type": [*_JSON_TYPES.get(str(kind), ["string"]), "null"], "description": measure.kind}


def _item(avro: Any) -> dict[str, Any]:
    """Return the schema of a list's item: a number, or an object of values that are never null."""
    if isinstance(avro, str):
        return {"type": _JSON_TYPES.get(avro, ["string"])}
    fields = {one["name"]: _item(one["type"]) for one in avro["fields"]}
    return {"type": ["object"], "properties": fields, "required": list(fields)}


def _key_column(column: KeyColumn) -> dict[str, Any]:
    kind = {NUMBER: "integer", BOOLEAN: "boolean"}.get(column.kind, "string")
    form = {"format": column.kind} if column.kind in (DATE, UUID) else {}
    return {"type": [kind, "null"] if column.nullable else kind, **form}


def _parameters(columns: Sequence[KeyColumn]) -> list[dict[str, Any]]:
    text = "Column of the key: all choose one key, leading ones alone the rows that have them."
    found = [_parameter(one.name, text, _key_column(one._replace(nullable=False))) for one in columns]
    if any(one.nullable for one in columns):
        text = "Columns of the key that are null."
        names = {"type": "string", "enum": [one.name for one in columns]}
        found.append(_parameter(NULL, text, {"type": "array", "items": names}))
    return found


def _parameter(name: str, text: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "description": text, "schema": schema}


def _guard(described: dict[str, Any]) -> None:
    described["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    schema = {"$ref": f"#/components/schemas/{Problem.__name__}"}
    content = {"application/json": {"schema": schema}}
    for path, methods in described["paths"].items():
        for method, route in methods.items():
            if path not in OPEN_PATHS:
                route["security"] = [{"token": []}]
                route["responses"]["401"] = {"description": WHY_UNGUARDED, "content": content}
            if needed_role(method.upper(), path) > Role.VIEWER:
                route["responses"]["403"] = {"description": WHY_FORBIDDEN, "content": content}
