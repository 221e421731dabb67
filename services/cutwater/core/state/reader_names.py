"""Who reads the commit stream: what messages call it, and what to do once the stream is another one."""

from __future__ import annotations

from typing import NamedTuple


class Reader(NamedTuple):
    name: str
    """As the subject of a sentence."""
    anew: str
    """How to let it begin anew."""


VIEW = Reader("the view", "delete the view's folder to rebuild it")
PUBLISHER = Reader(
    "the publisher", "delete the job's topics .output and .published, and let it and its readers begin anew"
)
CLIENT = Reader("this reader", "begin again without a token")
MIRROR = Reader("the mirror", "begin a new copy by 'cutwater mirror resync'")
