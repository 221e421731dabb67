"""YAML files that are checked against a pydantic model, with a line for each mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from cutwater.adapters.job_files.document.yaml_reader import read_document, word
from cutwater.adapters.job_files.errors import JobErrors
from cutwater.core.util.suggestions import closest, listed

Model = TypeVar("Model", bound=BaseModel)


def read_model(path: Path, model: type[Model], about: str) -> tuple[Model, JobErrors]:
    """Return the file's values and its mistakes so far. `about`: what such a file has, for one that has nothing.

    Raises UsageError with a line for each value that does not fit: file, line, field and what is allowed.
    """
    document = read_document(path, about)
    errors = JobErrors(path, document)
    try:
        return model.model_validate(document.values), errors
    except ValidationError as error:
        for one in error.errors():
            errors.add(tuple(word(part) for part in one["loc"] if part != "[key]"), _text(model, one))
    return errors.finish(None), errors


def _text(model: type[BaseModel], error: Any) -> str:
    if error["type"] == "missing":
        return "is required"
    if error["type"] != "extra_forbidden":
        return str(error["msg"]).removeprefix("Value error, ")
    names = [field.alias or name for name, field in model.model_fields.items()]
    if len(error["loc"]) > 1:
        return "is no field there"
    meant = closest(word(error["loc"][0]), names)
    return f"is no field there; allowed: {listed(names)}" + (f"; did you mean '{meant}'?" if meant else "")
