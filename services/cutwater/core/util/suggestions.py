"""User input in messages: shown safely, with the word that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

SHOWN_MAX = 80
"""The most characters of a value that a message repeats."""
_WORD_MAX = 64
_CUTOFF = 0.8
"""One wrong letter in five. With a lower value 'median' would match 'min'."""
_TYPO_MIN = 6
"""The least letters of a synonym that is matched with typos: 'median' is not 'mean'."""


def safe(text: str, most: int = SHOWN_MAX) -> str:
    """Return the text without a URL's user and password, escaped and shortened."""
    begin, end = text.find("://"), text.rfind("@")
    if 0 <= begin < end:
        text = f"{text[: begin + 3]}…{text[end:]}"
    cut = text if len(text) <= most else f"{text[: most - 1]}…"
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in cut)


def value_text(value: Any) -> str:
    """Return a value as text for a message. Lists and mappings are only named: aliases can make them endless."""
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return f"'{safe(value)}'"
    if isinstance(value, dict | list | tuple | set):
        return "a mapping" if isinstance(value, dict) else "a list"
    try:
        return safe(repr(value))
    except ValueError:  # Python does not print integers of more than 4,300 digits
        return "a number with too many digits"


def listed(names: Iterable[str], most: int = 30) -> str:
    """Return names in their order, at most `most`."""
    known = list(names)
    rest = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(safe(one) for one in known[:most]) + rest


def closest(word: str, allowed: Iterable[str], synonyms: Mapping[str, str] | None = None) -> str:
    """Return the allowed word that was probably meant, or an empty text if none is close.

    `synonyms`: other words for allowed ones. Letter case, and `-` for `_`, make no difference.
    """
    if len(word) > _WORD_MAX:
        return ""
    known = {_plain(one): one for one in allowed}
    others = {_plain(one): of for one, of in (synonyms or {}).items()}
    mine = _plain(word)
    if mine in known or mine in others:
        return known.get(mine) or others[mine]
    near = {**{one: of for one, of in others.items() if len(one) >= _TYPO_MIN}, **known}
    found = get_close_matches(mine, near, n=1, cutoff=_CUTOFF)
    swapped = [one for one in near if len(one) > 2 and sorted(one) == sorted(mine)]  # 'kye', 'jbo'
    return near[(found or swapped)[0]] if found or swapped else ""


def _plain(word: str) -> str:
    return word.strip().lower().replace("-", "_").replace(" ", "_")
