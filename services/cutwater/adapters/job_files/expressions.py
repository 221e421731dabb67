"""The expressions of a job file: `source.where` and `source.columns`, checked by Spark's parser and analyser.

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
from collections.abc import Mapping
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cutwater.adapters.job_files.errors import JobErrors
from cutwater.adapters.job_files.models import SourceModel
from cutwater.adapters.job_files.spark_types import cast_to, event_type, field_type
from cutwater.adapters.job_files.yaml_reader import Place
from cutwater.adapters.runtime.cache_folder import cache_dir
from cutwater.core.errors import MachineError
from cutwater.core.job.job import ComputedColumn
from cutwater.core.job.measures import MAX_DECIMAL, FieldType
from cutwater.core.util.suggestions import listed, value_text

CHECKER = ("cutwater.local.spark_runtime", "expressions")
"""The program that runs Spark's analyser; `cutwater_spark.tools.expressions` describes its input and output."""
REVISION = 1
"""Of the checks: a higher one asks Spark again about what is in the cache."""
CHECK_TIMEOUT_S = 300
CACHED_MAX = 1_000
"""Answers in the cache; above it the cache is emptied."""
_WHERE: Place = ("source", "where")
_COLUMNS: Place = ("source", "columns")
_DECIMAL = re.compile(r"decimal\(([0-9]{1,2}),\s*([0-9]{1,2})\)")
_NAMES = {
    **{one: FieldType(one) for one in ("boolean", "int", "long", "float", "double", "string", "bytes", "date")},
    "uuid": FieldType("uuid"),
    "timestamp": FieldType("timestamp-micros"),
}
_ALLOWED = f"{', '.join(_NAMES)}, decimal(p,s)"


def compile_columns(
    source: SourceModel, schema: dict[str, Any], fields: Mapping[str, FieldType], errors: JobErrors
) -> tuple[ComputedColumn, ...]:
    """Return the computed columns without mistakes; report those of `where` and of the others.

    Raises MachineError if Spark, which is installed, does not run, and a column's type depends on it.
    """
    if not source.where and not source.columns:
        return ()
    declared = {name: _declared(name, one.type, errors) for name, one in source.columns.items()}
    _check_names(source, fields, errors)
    found = _analysed(source, declared, schema, fields, errors)
    types = {name: declared[name] or found.get(name) for name in source.columns}
    return tuple(ComputedColumn(name, one.sql, of) for name, one in source.columns.items() if (of := types[name]))


def _declared(name: str, written: str, errors: JobErrors) -> FieldType | None:
    if not written:
        return None
    if found := _DECIMAL.fullmatch(written):
        precision, scale = int(found[1]), int(found[2])
        if 0 <= scale <= precision and 1 <= precision <= MAX_DECIMAL:
            return FieldType("decimal", precision, scale)
    if written not in _NAMES:
        text = f"{value_text(written)} is no type of a column; allowed: {_ALLOWED}"
        errors.add((*_COLUMNS, name, "type"), text, errors.meant(written, _NAMES))
    return _NAMES.get(written)


def _check_names(source: SourceModel, fields: Mapping[str, FieldType], errors: JobErrors) -> None:
    for name in source.columns:
        # Spark's column names are case-insensitive.
        if alike := [one for one in fields if one.lower() == name.lower()]:
            errors.add((*_COLUMNS, name), f"the schema has a field '{alike[0]}': choose another name")
        elif alike := [one for one in source.columns if one != name and one.lower() == name.lower()]:
            text = f"differs from column '{alike[0]}' in case alone, which Spark does not distinguish"
            errors.add((*_COLUMNS, name), text)


def _analysed(
    source: SourceModel,
    declared: Mapping[str, FieldType | None],
    schema: dict[str, Any],
    fields: Mapping[str, FieldType],
    errors: JobErrors,
) -> dict[str, FieldType]:
    """Return the types that Spark gives the columns, and report its mistakes. Raises MachineError."""
    untyped = [name for name, one in source.columns.items() if not one.type]
    if find_spec("pyspark") is None:
        for name in untyped:
            text = "its type is not known where Spark is not installed: write {sql: ..., type: ...}"
            errors.add((*_COLUMNS, name), f"{text}; allowed types: {_ALLOWED}")
        return {}
    wanted = _expressions(source, declared)
    asked = [[".".join(place), sql] for place, sql in wanted.items()]
    try:
        answer = _asked({"schema": event_type(schema), "expressions": asked})
    except MachineError:
        if untyped:
            raise
        return {}  # nothing depends on the answer here, and the driver is told the same
    places = {".".join(place): place for place in wanted}
    for place, text, unknown in answer["mistakes"]:
        if errors.sound(places[place][:3]):  # a column's mistake is also one of its cast
            _report(places[place], text, unknown, source, fields, errors)
    types: dict[str, str] = answer["types"]
    if types.get(".".join(_WHERE), "boolean") != "boolean":
        errors.add(_WHERE, f"is {types['.'.join(_WHERE)]}, and a condition is boolean")
    found = {name: _typed(name, types.get(".".join((*_COLUMNS, name))), errors) for name in untyped}
    return {name: of for name, of in found.items() if of}


def _expressions(source: SourceModel, declared: Mapping[str, FieldType | None]) -> dict[Place, str]:
    """Return what Spark is asked, by the place in the file: each expression, and its cast to a declared type."""
    found = {(*_COLUMNS, name): one.sql for name, one in source.columns.items()}
    if source.where:
        found[_WHERE] = source.where
    for name, of in declared.items():
        if of is not None:
            found[*_COLUMNS, name, "type"] = cast_to(source.columns[name].sql, of)
    return found


def _report(
    place: Place, text: str, unknown: str, source: SourceModel, fields: Mapping[str, FieldType], errors: JobErrors
) -> None:
    if not unknown:
        errors.add(place, text)
    elif unknown in source.columns:
        errors.add(place, f"'{unknown}' is a computed column, and expressions see the event's fields only")
    else:
        text = f"the schema has no field {value_text(unknown)}; it has: {listed(fields)}"
        errors.add(place, text, errors.meant(unknown, fields))


def _typed(name: str, spark: str | None, errors: JobErrors) -> FieldType | None:
    if spark is None:
        return None
    found = field_type(spark)
    if found is None:
        text = f"is {spark}, which no column may be; allowed: {_ALLOWED}. Choose a part of it, or cast it"
        errors.add((*_COLUMNS, name), text)
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
