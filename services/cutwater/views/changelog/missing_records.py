"""Detection of missing records in a changelog that was truncated or recreated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.core.errors import CutwaterError, DivergenceError, ProtocolError, UnavailableError
from cutwater.core.state.missing_offsets import gaps

ASK_S = 5.0

Needed = Callable[[], Mapping[int, tuple[int, int]]]
"""By partition: the next offset to read, and the end of the range."""


@contextmanager
def name_missing_records(cluster: Cluster, topic: str, needed: Needed) -> Iterator[None]:
    """Convert a read error into a DivergenceError that names the missing records, if some are missing. A log
    that ends below a cut is waited for, since an open transaction may hide its end. Its end including open
    transactions is never below a milestone's cut, since rows are acknowledged first."""
    try:
        yield
    except (ProtocolError, UnavailableError) as error:
        if not isinstance(error, DivergenceError) and (missing := _missing(cluster, topic, needed())):
            raise DivergenceError(
                f"{topic}: {'; '.join(missing)}. Find out what deleted the records or the topic; the view still "
                "shows its last milestone. A view without its folder may start from a newer snapshot; otherwise "
                "start a new generation."
            ) from None
        raise


def _missing(cluster: Cluster, topic: str, needed: Mapping[int, tuple[int, int]]) -> list[str]:
    """Return the missing ranges; none if the brokers do not answer, so that the first error is reported."""
    try:
        return gaps(needed, Offsets(cluster, ASK_S).topic_bounds(topic, needed))
    except CutwaterError:
        return []
