"""`source.transform` of a job file: columns, tables, and where the function is. Nothing is imported here."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cutwater.adapters.job_files.document.yaml_reader import Place
from cutwater.adapters.job_files.errors import JobErrors
from cutwater.adapters.job_files.expressions import declared_type
from cutwater.adapters.job_files.models import SourceModel
from cutwater.core.errors import UsageError
from cutwater.core.job.columns import Transform, TransformColumn
from cutwater.core.job.measures import FieldType
from cutwater.core.util.suggestions import listed

TABLE_BYTES_MAX = 8 << 20
"""Each epoch sends all tables to the executors."""
_PLACE: Place = ("source", "transform")
_FUNCTION: Place = (*_PLACE, "function")


def compile_transform(
    source: SourceModel, job_file: Path, others: Mapping[str, FieldType], errors: JobErrors
) -> Transform | None:
    """Return the function with its columns; report all mistakes. `others`: the types of fields and columns."""
    if source.transform is None:
        return None
    given, folder = source.transform, job_file.resolve().parent
    columns, seen = [], {one.lower(): one for one in others}
    for name, written in given.columns.items():
        place = (*_PLACE, "columns", name)
        if alike := seen.get(name.lower()):  # Spark's column names are case-insensitive
            errors.add(place, f"there is a field or column '{alike}': choose another name")
        seen[name.lower()] = name
        if not written:
            errors.add(place, "has no type: write one, as in {region: string}")
        elif of := declared_type(place, written, errors):
            columns.append(TransformColumn(name, of))
    contents = {}
    for name, file in given.tables.items():
        if found := errors.attempt((*_PLACE, "tables", name), partial(_table, folder / file)):
            contents[name] = found
    if errors.sound(_FUNCTION) and (found := _source_of(given.function, folder, errors)):
        contents[given.function] = found  # no name of a table has a colon
    tables = tuple((name, str(folder / file)) for name, file in given.tables.items())
    return Transform(given.function, tuple(columns), tables, str(folder), tuple(contents.items()))


def _table(path: Path) -> str:
    """Return the SHA-256 of a table's file. Raises UsageError."""
    if path.suffix.lower() != ".csv":
        raise UsageError(f"{path.name} is no .csv: write the table as CSV with a header")
    try:
        size = path.stat().st_size
        if size > TABLE_BYTES_MAX:
            raise UsageError(f"{path.name} has {size:,} bytes; a table may have {TABLE_BYTES_MAX:,}")
        return sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}: name a file beside the job file") from None


def _source_of(function: str, folder: Path, errors: JobErrors) -> str:
    """Return the SHA-256 of the module's source; empty if it is not here, as in the services' containers."""
    module, _, name = function.partition(":")
    code = None if (found := find_module(module, folder)) is None else module_code(found)
    if found is None or code is None:
        if find_spec("pyspark") is not None:
            text = (
                f"there is no module '{module}': put {module.split('.')[0]}.py beside the job file, or install it"
            )
            errors.add(_FUNCTION, text)
        return ""
    path = Path(str(found.origin))
    if path.suffix == ".py":
        _check_source(path, code, name, errors)
    return sha256(code).hexdigest()


def module_code(found: ModuleSpec) -> bytes | None:
    """Return the contents of a module's file, which may be in an archive of --py-files; None without one."""
    loader: Any = found.loader
    try:
        return bytes(loader.get_data(found.origin))
    except (AttributeError, OSError):
        return None


def find_module(module: str, folder: Path) -> ModuleSpec | None:
    """Return where a module is, first in this folder, then among the installed packages. Nothing is imported."""
    within: list[str] | None = None
    found = None
    parts = module.split(".")
    for at in range(len(parts)):
        named = ".".join(parts[: at + 1])
        found = PathFinder.find_spec(named, [str(folder)] if at == 0 else within)
        if found is None and at == 0:
            found = PathFinder.find_spec(named)
        if found is None:
            return None
        within = list(found.submodule_search_locations or ())
    return found


def _check_source(path: Path, code: bytes, name: str, errors: JobErrors) -> None:
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError) as error:
        errors.add(_FUNCTION, f"{path.name} is no Python: {error}")
        return
    functions = [one.name for one in tree.body if isinstance(one, ast.FunctionDef)]
    bound = any(isinstance(one, ast.Import | ast.ImportFrom | ast.Assign | ast.If | ast.Try) for one in tree.body)
    if name not in functions and not (bound and name in code.decode("utf-8", "replace")):
        text = f"{path.name} has no function '{name}'; it has: {listed(functions) or 'none'}"
        errors.add(_FUNCTION, text, errors.meant(name, functions))
