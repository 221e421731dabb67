"""All mistakes of one job file, by line. Reading continues after a mistake, so that one run reports every one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from cutwater.adapters.job_files.document.yaml_reader import Document, Mark, Place
from cutwater.core.errors import UsageError
from cutwater.core.util.suggestions import closest, safe

MISTAKES_MAX = 50
"""Number of mistakes that are listed; of the others only the count."""
_GUESSES_MAX = 1_000
"""Number of mistakes after which there are no more suggestions."""

_Made = TypeVar("_Made")


@dataclass(frozen=True, order=True)
class Mistake:
    mark: Mark
    place: Place
    text: str


class JobErrors:
    """Collects the mistakes of a file and the fields that have one."""

    def __init__(self, path: Path, document: Document) -> None:
        self._path = path
        self._document = document
        self._mistakes = {Mistake(one.mark, one.place, one.text) for one in document.flaws}
        self._broken: set[Place] = set()
        self._around: set[Place] = set()

    def __bool__(self) -> bool:
        return bool(self._mistakes)

    def add(self, place: Place, text: str, meant: str = "", at: Place | None = None) -> None:
        """Report a mistake in a field. `meant`: a suggestion. `at`: another field whose line is reported."""
        self.remark(place, text, meant, at)
        self._broken.add(place)
        self._around |= {place[:depth] for depth in range(len(place))}

    def remark(self, place: Place, text: str, meant: str = "", at: Place | None = None) -> None:
        """Report a mistake that blocks no other check, such as an unknown field."""
        advice = f"; did you mean '{safe(meant)}'?" if meant else ""
        self._mistakes.add(Mistake(self._document.mark(at or place), place, text + advice))

    def sound(self, *places: Place) -> bool:
        """Return whether these fields, and those below and around them, are without mistakes."""
        return not any(
            place in self._around or any(place[:depth] in self._broken for depth in range(len(place) + 1))
            for place in places
        )

    def attempt(self, place: Place, make: Callable[[], _Made], *needs: Place) -> _Made | None:
        """Return the result of `make` if the fields `needs` (default: `place`) are sound; note its UsageError."""
        if not self.sound(*(needs or (place,))):
            return None
        try:
            return make()
        except UsageError as error:
            self.add(place, str(error).removeprefix(f"{'.'.join(place)}: "))
            return None

    def meant(self, word: str, allowed: Collection[str], synonyms: Mapping[str, str] | None = None) -> str:
        """Return the most similar allowed word, or an empty text."""
        return closest(word, allowed, synonyms) if len(self._mistakes) < _GUESSES_MAX else ""

    def line(self, place: Place) -> int:
        return self._document.mark(place).line

    def finish(self, made: _Made | None) -> _Made:
        """Return the result; raise UsageError with all mistakes if there are any."""
        if made is None or self._mistakes:
            raise UsageError("\n".join(self._lines()))
        return made

    def _lines(self) -> Iterable[str]:
        for one in sorted(self._mistakes)[:MISTAKES_MAX]:
            name = ".".join(safe(part) for part in one.place) or "(top)"
            yield f"{self._path}:{one.mark.line}: {name}: {one.text}"
        more = len(self._mistakes) - MISTAKES_MAX
        if more > 0:
            yield f"{self._path}: … and {more:,} more mistake{'s' if more > 1 else ''}"
