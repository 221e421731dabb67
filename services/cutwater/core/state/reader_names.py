"""Readers of the commit stream in error messages: their names, and how to restart each on a replaced stream."""

from __future__ import annotations

from typing import NamedTuple


class Reader(NamedTuple):
    name: str
    """The subject of a sentence."""
    anew: str
    """Instruction to restart it from nothing."""


VIEW = Reader("the view", "delete the view's folder to rebuild it")
PUBLISHER = Reader(
    "the publisher",
    "delete the job's topics .output and .published, and start it and its readers from the beginning",
)
CLIENT = Reader("this reader", "start again without a token")
MIRROR = Reader("the mirror", "start a new copy by 'cutwater mirror resync'")
