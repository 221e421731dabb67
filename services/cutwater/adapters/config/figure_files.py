"""YAML files of plain numbers, as a price list, read into a dataclass of defaults."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from cutwater.adapters.job_files.document.yaml_reader import Document, read_document
from cutwater.core.errors import UsageError
from cutwater.core.util.suggestions import closest, listed, value_text

T = TypeVar("T")
NUMBER_MAX = 1e18


def read_figures(path: Path, kind: type[T]) -> T:
    """Return a file's figures; those that it leaves out have their defaults. Each is above 0, or 0 as its default.

    Raises UsageError, with file and line, for another name or no such number.
    """
    document = read_document(path, "a file of figures has a name and a number in each line (docs/SIZING.md)")
    names = {one.name: one.default for one in fields(kind)}  # type: ignore[arg-type]
    found: dict[str, Any] = {}
    for flaw in document.flaws:
        raise UsageError(f"{path}:{flaw.mark.line}: {flaw.text}")
    for name, value in document.values.items():
        if name not in names:
            meant = closest(str(name), names)
            hint = f"; did you mean '{meant}'?" if meant else ""
            raise _refusal(path, document, name, f"is no figure of this file; it has: {listed(names)}{hint}")
        found[name] = _value(path, document, name, value, names[name])
    return kind(**found)


def _value(path: Path, document: Document, name: str, value: Any, default: Any) -> Any:
    if isinstance(default, str):
        if isinstance(value, str) and len(value) <= 10:
            return value
        raise _refusal(path, document, name, f"is {value_text(value)}; allowed: a text of up to 10 characters")
    number, most = _number(value), 1 if name == "utilisation" else NUMBER_MAX
    least = 0 if default == 0 else 1 / NUMBER_MAX
    if number is None or not least <= number <= most or (isinstance(default, int) and number != int(number)):
        wanted = "a whole number" if isinstance(default, int) else "a number"
        bounds = f"{'from' if default == 0 else 'above'} 0 to {most:g}"
        raise _refusal(path, document, name, f"is {value_text(value)}; allowed: {wanted} {bounds}")
    return type(default)(number)


def _number(value: Any) -> float | None:
    """YAML reads 1.5e9 as a text."""
    try:
        return None if isinstance(value, bool | list | dict | None) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _refusal(path: Path, document: Document, name: Any, text: str) -> UsageError:
    return UsageError(f"{path}:{document.mark((str(name),)).line}: {value_text(name)} {text}")
