"""All mistakes of one job file, by line. Reading goes on behind a mistake, so that one run tells every one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from cutwater.adapters.job_files.yaml_reader import Document, Mark, Place
from cutwater.core.errors import UsageError
from cutwater.core.util.suggestions import closest, safe

MISTAKES_MAX = 50
"""Mistakes that are told; of the others the number."""
_GUESSES_MAX = 1_000
"""Mistakes behind which nobody is told any more what was probably meant."""

_Made = TypeVar("_Made")


@dataclass(frozen=True, order=True)
class Mistake:
    """One line of the message."""

    mark: Mark
    place: Place
    text: str


class JobErrors:
    """Collects the mistakes of a file, and knows which fields are free of them."""

    def __init__(self, path: Path, document: Document) -> None:
        self._path = path
        self._document = document
        self._mistakes = {Mistake(one.mark, one.place, one.text) for one in document.flaws}
        self._broken: set[Place] = set()
        self._around: set[Place] = set()

    def __bool__(self) -> bool:
        return bool(self._mistakes)

    def add(self, place: Place, text: str, meant: str = "", at: Place | None = None) -> None:
        """Note what is wrong with a field: from now on it is not sound.

        `meant`: what was probably meant. `at`: the field that tells the line, if it is another one.
        """
        self.remark(place, text, meant, at)
        self._broken.add(place)
        self._around |= {place[:depth] for depth in range(len(place))}

    def remark(self, place: Place, text: str, meant: str = "", at: Place | None = None) -> None:
        """Note something wrong that is in the way of nothing else, as a field that is not known."""
        advice = f"; did you mean '{safe(meant)}'?" if meant else ""
        self._mistakes.add(Mistake(self._document.mark(at or place), place, text + advice))

    def sound(self, *places: Place) -> bool:
        """Return whether nothing is wrong in these fields, below them and around them."""
        return not any(
            place in self._around or any(place[:depth] in self._broken for depth in range(len(place) + 1))
            for place in places
        )

    def attempt(self, place: Place, make: Callable[[], _Made], *needs: Place) -> _Made | None:
        """Return what is made of sound fields. A UsageError becomes a mistake at `place`.

        `needs`: the fields that it is made of; where none is named, `place`.
        """
        if not self.sound(*(needs or (place,))):
            return None
        try:
            return make()
        except UsageError as error:
            self.add(place, str(error).removeprefix(f"{'.'.join(place)}: "))
            return None

    def meant(self, word: str, allowed: Collection[str], synonyms: Mapping[str, str] | None = None) -> str:
        """Return the allowed word that was probably meant, or an empty text."""
        return closest(word, allowed, synonyms) if len(self._mistakes) < _GUESSES_MAX else ""

    def line(self, place: Place) -> int:
        """Return the line of a field."""
        return self._document.mark(place).line

    def finish(self, made: _Made | None) -> _Made:
        """Return what was made of the file; raise UsageError with all mistakes when there are any."""
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
