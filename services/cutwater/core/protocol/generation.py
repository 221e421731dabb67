"""Generations and tokens.

A generation is one incarnation of a job's writer: (number, region, hash of its parent milestone).
A token names a milestone for users: `g1-local-00000000:42`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cutwater.core.errors import UsageError

ROOT_PARENT = "00000000"
REGION_PATTERN = r"[a-z][a-z0-9]{0,15}"
_GENERATION = re.compile(rf"g([1-9][0-9]{{0,8}})-({REGION_PATTERN})-([0-9a-f]{{8}})")
# A 64-bit number at most: tokens are untrusted input, and int() of thousands of digits raises.
_SEQUENCE = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, order=True)
class Generation:
    number: int
    region: str
    parent: str = ROOT_PARENT
    """The first 8 hex digits of the parent milestone's hash; zeros for a job's first generation."""

    def __str__(self) -> str:
        return f"g{self.number}-{self.region}-{self.parent}"

    @staticmethod
    def parse(text: str) -> Generation:
        found = _GENERATION.fullmatch(text)
        if found is None:
            raise UsageError(f"'{text}' is not a generation id; one looks like g1-local-{ROOT_PARENT}")
        return Generation(int(found[1]), found[2], found[3])


@dataclass(frozen=True)
class Token:
    """The public name of a promoted milestone."""

    generation: Generation
    sequence: int

    def __str__(self) -> str:
        return f"{self.generation}:{self.sequence}"

    @staticmethod
    def parse(text: str) -> Token:
        generation, separator, sequence = text.rpartition(":")
        if not separator or not _SEQUENCE.fullmatch(sequence):
            raise UsageError(f"'{text}' is not a token; one looks like g1-local-{ROOT_PARENT}:42")
        return Token(Generation.parse(generation), int(sequence))
