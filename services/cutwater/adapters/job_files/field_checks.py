"""The first stage of reading a job file: every field by itself, against the models of `models`.

A stand-in replaces each invalid value, so that the rules between the other fields can be checked, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from cutwater.adapters.job_files.document.yaml_errors import GLUED
from cutwater.adapters.job_files.document.yaml_reader import Document, Place, word
from cutwater.adapters.job_files.errors import JobErrors
from cutwater.adapters.job_files.models import COLUMN, AttachedModel, JobModel, Model
from cutwater.core.util.suggestions import SHOWN_MAX, closest, listed, value_text

_Checked = TypeVar("_Checked", bound=Model)

# Valid values for required fields that are missing or invalid. No rule is checked on them.
_STAND_INS: dict[str, Any] = {
    "job": "none",
    "source": {"topic": "none", "schema": "none", "key": "none", "event_time": "none"},
    "attached": {"key": "none", "schema": "none"},
    "window": {"kind": "tumbling", "size": "1h"},
    "lateness": "1h",
    "retention": "1h",
}
_COUNT = {"measure": "count"}
_SESSION = (
    "session windows are not supported: a session's bounds change while it is open, so its rows have no fixed key "
    "to compact by; allowed: tumbling, sliding"
)
_SECRET = frozenset({"registry", "url"})
"""A value at this field may hold a password."""


def is_attached(values: dict[Any, Any]) -> bool:
    """Return whether this is the job file of an attached query. `attached` may be misspelt."""
    if "attached" in values or "source" in values:
        return "attached" in values
    names = {*_fields(JobModel), *_fields(AttachedModel)}
    return any(closest(word(key), names) == "attached" for key in list(values)[:100])


def check_fields(model: type[_Checked], document: Document, errors: JobErrors) -> _Checked:
    """Return the file's values, with stand-ins for invalid ones. Raises UsageError if that is impossible."""
    values = _without_unknown(model, document.values, (), _Walk(model, document, errors))
    try:
        return model.model_validate(values)
    except ValidationError as error:
        found = error.errors()
    for one in found:
        place = tuple(word(part) for part in one["loc"] if part != "[key]")
        errors.add(place, _text(model, place, one), _meant(one, errors))
        _replace(values, one["loc"])
    try:
        return model.model_validate(values)
    except ValidationError:
        return errors.finish(None)


@dataclass(frozen=True)
class _Walk:
    top: type[Model]
    document: Document
    errors: JobErrors


def _without_unknown(model: type[Model], values: dict[Any, Any], at: Place, walk: _Walk) -> dict[Any, Any]:
    """Copy a mapping without unknown fields; a misspelt field gets its probable name."""
    fields = _fields(model)
    known: dict[Any, Any] = {}
    for key, value in values.items():
        name = key
        if key not in fields:
            name = _unknown(word(key), fields, values, at, walk)
            if not name or name in known:
                continue
            walk.document.respell((*at, name), word(key))
        known[name] = _inside(fields[name], value, (*at, name), walk)
    return known


def _inside(field: FieldInfo, value: Any, at: Place, walk: _Walk) -> Any:
    if not isinstance(value, dict):
        return value
    if _model(field) is not Model:
        return _without_unknown(_model(field), value, at, walk)
    (*_, inner) = get_args(field.annotation) or (None,)
    if not (isinstance(inner, type) and issubclass(inner, Model)):
        return value
    named: dict[Any, Any] = {}
    for key, one in value.items():
        name = _measure_name(key, value, at, walk)
        if name:
            named[name] = _without_unknown(inner, one, (*at, name), walk) if isinstance(one, dict) else one
    return named


def _measure_name(key: Any, others: dict[Any, Any], at: Place, walk: _Walk) -> str:
    """Return the name to read a measure under, empty for none. YAML may have parsed it as another type."""
    name = word(key)
    if not isinstance(key, str):
        text = f"YAML reads this name as {type(key).__name__} {value_text(key)}: put it in quotes"
        walk.errors.remark((*at, name), text)
        return name if name.isidentifier() else ""
    near = name.replace("-", "_").replace(" ", "_")
    if near == name or near in others or not re.fullmatch(COLUMN, near):
        return name
    walk.errors.remark((*at, name), f"String should match pattern '{COLUMN}' (given: {value_text(name)})", near)
    walk.document.respell((*at, near), name)
    return near


def _unknown(name: str, fields: dict[str, FieldInfo], values: dict[Any, Any], at: Place, walk: _Walk) -> str:
    """Report an unknown field; return the name to read it under, empty for none."""
    glued = name.partition(":")[0] if GLUED.match(name) else ""
    meant = walk.errors.meant(glued or name, fields)
    place, text = (*at, name), "is not a field of a job file"
    if name in _fields(JobModel) and not at and walk.top is AttachedModel:
        walk.errors.remark(place, f"{text} with 'attached': your query defines this; delete it")
    elif glued in fields:
        walk.errors.remark(place, f"{text}: write a space after the colon")
    elif not meant and (home := _home(name, walk.top, at)):
        walk.errors.remark(place, f"{text} there: it belongs {home}")
    elif meant in values:
        line = walk.errors.line((*at, meant))
        walk.errors.remark(
            place, f"{text}; check the spelling: '{meant}' has a value already, on line {line}", meant
        )
    else:
        allowed = "" if meant else f"; allowed: {listed(fields)}"
        walk.errors.remark(place, f"{text}; check the spelling{allowed}", meant)
    return "" if meant in values or glued else meant


def _home(name: str, top: type[Model], at: Place) -> str:
    """Return the place of a known field that is in the wrong mapping, for example by a wrong indentation."""
    fields = _fields(top)
    if at:
        return "to the top of the file" if len(at) == 1 and name in fields else ""
    sections = [section for section, field in fields.items() if name in _fields(_model(field))]
    return f"below {' or '.join(repr(one) for one in sections)}" if sections else ""


def _model(field: FieldInfo | None) -> type[Model]:
    """Return the model of a field's own fields, or the empty model."""
    annotation = field.annotation if field else None
    if isinstance(annotation, UnionType):
        annotation = next((one for one in get_args(annotation) if one is not NoneType), None)
    return annotation if isinstance(annotation, type) and issubclass(annotation, Model) else Model


def _fields(model: type[Model]) -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _text(model: type[Model], place: Place, error: Any) -> str:
    given, kind, text = error.get("input"), error["type"], str(error["msg"]).removeprefix("Value error, ")
    if kind == "missing":
        return f"is required{_purpose(model, place)}"
    if kind == "value_error":
        return text
    if place == ("window", "kind") and given == "session":
        return _SESSION
    is_scalar = given is None or isinstance(given, str | int | float)
    text = text.partition(" or instance of")[0]
    if is_scalar and not _SECRET & set(place[-1:]):
        text += f" (given: {value_text(given)})"
    return text + _advice(kind, given)


def _purpose(model: type[Model], place: Place) -> str:
    fields = _fields(model)
    for name in place[:-1]:
        fields = _fields(_model(fields.get(name)))
    told = (fields[place[-1]].description if place[-1] in fields else None) or ""
    sentence = told.removesuffix("; see below.").partition(". ")[0].rstrip(".")
    return f"; {sentence[0].lower()}{sentence[1:]}" if sentence else ""


def _advice(kind: str, given: Any) -> str:
    if kind in {"dict_type", "model_type"}:
        glued = isinstance(given, str) and GLUED.match(given)
        return "; write a space after the colon" if glued else "; write its fields below it, each as 'name: value'"
    if kind == "string_type" and isinstance(given, bool | int | float | date):
        return f"; YAML reads it as {type(given).__name__}: put a text in quotes"
    if kind == "int_type" and isinstance(given, str) and given.strip().isdecimal():
        return "; write it without quotes"
    return ""


def _meant(error: Any, errors: JobErrors) -> str:
    """Return a similar valid value, empty if there is none."""
    given, kind = error.get("input"), error["type"]
    if not isinstance(given, str) or len(given) > SHOWN_MAX:
        return ""
    if kind == "literal_error":
        return errors.meant(given, re.findall(r"'([^']+)'", error["ctx"]["expected"]))
    if kind == "string_pattern_mismatch":
        plain = given.strip()
        variants = (plain, plain.lower(), plain.lower().replace("_", "-"))
        pattern = re.compile(error["ctx"]["pattern"])
        return next((one for one in variants if pattern.fullmatch(one)), "")
    return ""


def _replace(values: dict[Any, Any], location: tuple[int | str, ...]) -> None:
    """Replace an invalid field by its stand-in, or remove it if it has a default."""
    names = [part for part in location if part != "[key]"]
    if names[0] == "measures":
        _replace_measure(values, names, "[key]" in location)
        return
    if names[:2] == ["source", "columns"]:
        _leave_out_column(values["source"], names)
        return
    if names[:2] == ["source", "transform"]:
        values["source"].pop("transform", None)  # it may be a text
        return
    stand_in: Any = _STAND_INS
    inside = values
    for depth, name in enumerate(names):
        stand_in = stand_in.get(name) if isinstance(stand_in, dict) else None
        if depth < len(names) - 1:
            inside = inside[name]
        elif stand_in is None:
            inside.pop(name, None)
        else:
            inside[name] = stand_in


def _leave_out_column(source: dict[Any, Any], names: list[Any]) -> None:
    columns = source.get("columns")
    if len(names) == 2 or not isinstance(columns, dict):
        source.pop("columns", None)
    else:
        columns.pop(names[2], None)


def _replace_measure(values: dict[Any, Any], names: list[Any], is_name_wrong: bool) -> None:
    measures = values.get("measures")
    if len(names) == 1 or not isinstance(measures, dict):
        values["measures"] = {"none": _COUNT}
        return
    key = names[1]
    if is_name_wrong or len(names) == 2:
        measures.pop(key, None)
    elif key in measures and names[2] == "measure":
        measures[key]["measure"] = "count"
    elif key in measures:
        measures[key].pop(names[2], None)
    if not measures:
        measures["none"] = _COUNT
