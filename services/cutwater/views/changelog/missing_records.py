"""A changelog that was cut or made anew: who cannot read on asks what is there, and says what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Ends
from cutwater.core.errors import CutwaterError, DivergenceError, ProtocolError, UnavailableError
from cutwater.core.state.missing_offsets import gaps

ASK_S = 5.0

Needed = Callable[[], Mapping[int, tuple[int, int]]]
"""By partition, the next offset to be read, and the end of what is needed."""


@contextmanager
def told_exactly(cluster: Cluster, topic: str, needed: Needed) -> Iterator[None]:
    """Around a reading: where records are missing, its error becomes a DivergenceError that names them.

    A log that ends below a cut is waited for, since an open transaction may hide its end. But its end with open
    transactions never lies below the cut of a milestone: rows are acknowledged first.
    """
    try:
        yield
    except (ProtocolError, UnavailableError) as error:
        if not isinstance(error, DivergenceError) and (missing := _missing(cluster, topic, needed())):
            raise DivergenceError(
                f"{topic}: {'; '.join(missing)}. Records or the topic were deleted: find out by whom. What was "
                "shown before stays; a view without its folder may begin from a newer snapshot, else start a new "
                "generation."
            ) from None
        raise


def _missing(cluster: Cluster, topic: str, needed: Mapping[int, tuple[int, int]]) -> list[str]:
    """Nothing is known where the brokers do not answer: then the error before is the one to tell."""
    try:
        return gaps(needed, Ends(cluster, ASK_S).kept(topic, needed))
    except CutwaterError:
        return []
