"""Do two schema registries mean the same by a number? Events that name one are copied as they stand."""

from __future__ import annotations

from collections.abc import Mapping


def differing(there: Mapping[int, str], here: Mapping[int, str]) -> list[str]:
    """What a reader here would not read as it was written there, a text for each number.

    Schemas by their number in the registry, as fingerprints of what readers resolve by.
    """
    found = []
    for number, schema in sorted(there.items()):
        if number not in here:
            found.append(f"number {number} ({schema}) is not known here")
        elif here[number] != schema:
            found.append(f"number {number} is another schema here: {here[number]}, not {schema}")
    return found
