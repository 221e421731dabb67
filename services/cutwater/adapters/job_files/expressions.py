"""The expressions of a job file: `where`, `columns` and `explode` of its source, checked by Spark's analyser.

Spark runs in a process of its own. Its answer is kept in the cache, so an unchanged file is read at once. Where
Spark is not installed, as in the services' containers, columns need a type in the file.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cutwater.adapters.job_files.document.yaml_reader import Place
from cutwater.adapters.job_files.errors import JobErrors
from cutwater.adapters.job_files.models import ColumnModel, SourceModel
from cutwater.adapters.job_files.spark_types import cast_to, each_of, event_type, field_type
from cutwater.adapters.runtime.cache_folder import cache_dir
from cutwater.core.errors import MachineError
from cutwater.core.job.columns import ComputedColumn, Explode
from cutwater.core.job.measures import MAX_DECIMAL, FieldType
from cutwater.core.util.suggestions import listed, value_text

CHECKER = ("cutwater.local.spark_runtime", "expressions")
"""The program that runs Spark's analyser; `cutwater_spark.tools.expressions` describes its input and output."""
REVISION = 1
"""Of the checks: a higher one asks Spark again about what is in the cache."""
CHECK_TIMEOUT_S = 300
CACHED_MAX = 1_000
"""Answers in the cache; above it the cache is emptied."""
_EXPLODE: Place = ("source", "explode")
_DECIMAL = re.compile(r"decimal\(([0-9]{1,2}),\s*([0-9]{1,2})\)")
_NAMES = {
    **{one: FieldType(one) for one in ("boolean", "int", "long", "float", "double", "string", "bytes", "date")},
    "uuid": FieldType("uuid"),
    "timestamp": FieldType("timestamp-micros"),
}
_ALLOWED = f"{', '.join(_NAMES)}, decimal(p,s)"


@dataclass(frozen=True)
class _Scope:
    """Expressions over the same names: those of the event, or of an array's element."""

    place: Place
    where: str
    columns: Mapping[str, ColumnModel]
    array: str = ""
    item: str = ""

    def column(self, name: str) -> Place:
        return (*self.place, "columns", name)

    def expressions(self, declared: Mapping[str, FieldType | None]) -> Iterator[tuple[Place, str]]:
        """Yield what Spark is asked, by its place in the file: expressions, and their casts to declared types."""
        if self.array:
            yield (*self.place, "array"), self.array
        if self.where:
            yield (*self.place, "where"), self._of_one(self.where)
        for name, one in self.columns.items():
            yield self.column(name), self._of_one(one.sql)
            if of := declared.get(name):
                yield (*self.column(name), "type"), self._of_one(cast_to(one.sql, of))

    def _of_one(self, sql: str) -> str:
        return f"element_at({each_of(self.array, self.item, sql)}, 1)" if self.array else sql


def compile_columns(
    source: SourceModel, schema: dict[str, Any], fields: Mapping[str, FieldType], errors: JobErrors
) -> tuple[tuple[ComputedColumn, ...], Explode | None]:
    """Return the columns of an event and of an array's elements without mistakes; report all mistakes.

    Raises MachineError if Spark, which is installed, does not run, and a column's type depends on it.
    """
    scopes = [_Scope(("source",), source.where, source.columns)]
    if one := source.explode:
        scopes.append(_Scope(_EXPLODE, one.where, one.columns, one.array, one.as_))
    if not any(one.where or one.columns for one in scopes):
        return (), None
    declared = [
        {
            name: declared_type((*scope.column(name), "type"), one.type, errors)
            for name, one in scope.columns.items()
        }
        for scope in scopes
    ]
    _check_names(scopes, fields, errors)
    found = _analysed(scopes, declared, schema, fields, errors)
    made = [
        tuple(
            ComputedColumn(name, one.sql, of)
            for name, one in scope.columns.items()
            if (of := types[name] or found.get(scope.column(name)))
        )
        for scope, types in zip(scopes, declared, strict=True)
    ]
    if one := source.explode:
        return made[0], Explode(one.array, one.as_, one.where, made[1])
    return made[0], None


def declared_type(place: Place, written: str, errors: JobErrors) -> FieldType | None:
    """Return the type that the file gives a column; None if it gives none. Report another word."""
    if not written:
        return None
    if found := _DECIMAL.fullmatch(written):
        precision, scale = int(found[1]), int(found[2])
        if 0 <= scale <= precision and 1 <= precision <= MAX_DECIMAL:
            return FieldType("decimal", precision, scale)
    if written not in _NAMES:
        text = f"{value_text(written)} is no type of a column; allowed: {_ALLOWED}"
        errors.add(place, text, errors.meant(written, _NAMES))
    return _NAMES.get(written)


def _check_names(scopes: Sequence[_Scope], fields: Mapping[str, FieldType], errors: JobErrors) -> None:
    named = [((*scope.place, "as"), scope.item) for scope in scopes if scope.item]
    named += [(scope.column(name), name) for scope in scopes for name in scope.columns]
    for place, name in named:
        # Spark's column names are case-insensitive.
        others = [one for at, one in named if at != place and one.lower() == name.lower()]
        if alike := [one for one in fields if one.lower() == name.lower()]:
            errors.add(place, f"the schema has a field '{alike[0]}': choose another name")
        elif name in others:
            errors.add(place, f"there is another '{name}': choose another name")
        elif others:
            text = f"differs from column '{others[0]}' in case alone, which Spark does not distinguish"
            errors.add(place, text)


def _analysed(
    scopes: Sequence[_Scope],
    declared: Sequence[Mapping[str, FieldType | None]],
    schema: dict[str, Any],
    fields: Mapping[str, FieldType],
    errors: JobErrors,
) -> dict[Place, FieldType]:
    """Return the types that Spark gives the columns, and report its mistakes. Raises MachineError."""
    untyped = [scope.column(name) for scope in scopes for name, one in scope.columns.items() if not one.type]
    if find_spec("pyspark") is None:
        for place in untyped:
            text = "its type is not known where Spark is not installed: write {sql: ..., type: ...}"
            errors.add(place, f"{text}; allowed types: {_ALLOWED}")
        return {}
    asked = {
        place: sql
        for scope, types in zip(scopes, declared, strict=True)
        for place, sql in scope.expressions(types)
    }
    request = {
        "schema": event_type(schema),
        "expressions": [[".".join(place), sql] for place, sql in asked.items()],
    }
    try:
        answer = _asked(request)
    except MachineError:
        if untyped:
            raise
        return {}  # nothing depends on the answer here, and the driver is told the same
    places = {".".join(place): place for place in asked}
    types = {places[place]: of for place, of in answer["types"].items()}
    for place, of in types.items():
        if place[-1] == "where" and of != "boolean" and place[-2] != "columns":
            errors.add(place, f"is {of}, and a condition is boolean")
        elif place == (*_EXPLODE, "array") and not of.startswith("array<"):
            errors.add(place, f"is {of}, and only an array has elements")
    for place, text, unknown in answer["mistakes"]:
        _report(places[place], text, unknown, scopes, fields, errors)
    found = {place: _typed(place, types.get(place), errors) for place in untyped}
    return {place: of for place, of in found.items() if of}


def _report(
    place: Place,
    text: str,
    unknown: str,
    scopes: Sequence[_Scope],
    fields: Mapping[str, FieldType],
    errors: JobErrors,
) -> None:
    """Report a mistake, but none of a cast or an element that follows from that of the column or array."""
    around = place[: place.index("columns") + 2] if "columns" in place[:-1] else place
    array = (*_EXPLODE, "array")
    if not errors.sound(around) or (place[:2] == _EXPLODE and place != array and not errors.sound(array)):
        return
    if not unknown:
        errors.add(place, text)
    elif any(unknown in one.columns for one in scopes):
        errors.add(place, f"'{unknown}' is a computed column, and expressions see the event's fields only")
    else:
        names = [*fields, *(one.item for one in scopes if one.item and place[:2] == _EXPLODE and place != array)]
        text = f"the schema has no field {value_text(unknown)}; it has: {listed(names)}"
        errors.add(place, text, errors.meant(unknown, names))


def _typed(place: Place, spark: str | None, errors: JobErrors) -> FieldType | None:
    if spark is None:
        return None
    found = field_type(spark)
    if found is None:
        text = f"is {spark}, which no column may be; allowed: {_ALLOWED}. Choose a part of it, or cast it"
        errors.add(place, text)
    return found


def _asked(request: dict[str, Any]) -> dict[str, Any]:
    """Return Spark's answer, of the cache if it was asked before. Raises MachineError if Spark does not run."""
    asked = json.dumps(request, sort_keys=True)
    named = sha256(f"{REVISION} {_spark_version()} {asked}".encode()).hexdigest()
    cached = cache_dir() / "expressions" / f"{named}.json"
    try:
        return _parse(cached.read_text("utf-8"))
    except (OSError, ValueError):
        answer = _run(asked)
    _keep(cached, answer)
    return answer


def _parse(text: str) -> dict[str, Any]:
    """Parse Spark's answer. Raises ValueError for anything else."""
    found = json.loads(text)
    if not isinstance(found, dict) or found.keys() != {"types", "mistakes"}:
        raise ValueError("no answer of the checker")
    return found


def _spark_version() -> str:
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return "unknown"


def _run(asked: str) -> dict[str, Any]:
    command = [sys.executable, "-m", *CHECKER]
    try:
        done = subprocess.run(
            command, input=asked, capture_output=True, text=True, timeout=CHECK_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise MachineError(f"Spark did not check the expressions within {CHECK_TIMEOUT_S} s") from None
    try:
        return _parse(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        told = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise MachineError(f"Spark, which checks the expressions, does not run: {' '.join(told)}") from None


def _keep(cached: Path, answer: dict[str, Any]) -> None:
    """Write the answer by a rename, because other processes read it. Without a writable cache nothing is kept."""
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        if len(others := list(cached.parent.glob("*.json"))) >= CACHED_MAX:
            for one in others:
                one.unlink(missing_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=cached.parent, delete=False, encoding="utf-8") as fresh:
            json.dump(answer, fresh)
        os.replace(fresh.name, cached)
    except OSError:
        return
