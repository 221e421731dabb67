"""What one transactional writer has written: is it all still there? Asked before it writes more.

A log can lose its end only when it gets another leader, or is made anew. So while both
stay, one look is all it takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.log_evidence import Look, Witness
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.log_evidence import Evidence

MARKER_TRIES, MARKER_PAUSE_S = 200, 0.1
"""How often, and after which pause, somebody looks whether a transaction has ended in each partition."""


class OwnLog:
    """Of one writer; `places`: every partition that it writes to, alone."""

    def __init__(
        self,
        cluster: Cluster,
        places: Sequence[TopicPartition],
        who: str,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._witness = Witness(cluster)
        self._places, self._who, self._sleep = places, who, sleep
        self._seen = Look({}, {})

    @property
    def cut(self) -> Cut:
        """Where the topics ended at the last look."""
        return self._seen.cut

    @property
    def evidence(self) -> Evidence:
        """Of the topics, at the last look."""
        return self._seen.evidence

    def begin(self, evidence: Evidence = (), cut: Cut | None = None) -> None:
        """Behind the fencing of whoever wrote before. `evidence`, `cut`: of its last look, where they are known.

        Raises LostRecordsError; UnavailableError as `require` does.
        """
        self._await_markers()
        look = self._witness.look(self._places)
        self._witness.require(evidence, cut or Cut(), f"what {self._who} wrote", look)
        self._seen = look

    def require(self, last_is_kept: Callable[[], None]) -> None:
        """Raise LostRecordsError where something is lost of what was written. Asked between two transactions.

        What was there at the look before is known by evidence; `last_is_kept` says the same of what was written
        since. Raises UnavailableError where the end of a transaction is lost, which hides what is behind it.
        """
        look = self._witness.look(self._places)
        # A topic made anew between the two questions of one look has the old identity there, and the new end.
        self._witness.require(self._seen.evidence, self._seen.cut, f"what {self._who} wrote", look)
        if look.evidence != self._seen.evidence:
            self._await_markers()
            last_is_kept()
        self._seen = look

    def _await_markers(self) -> None:
        """Until what was committed can be read: Kafka ends a transaction in each partition by itself, and soon."""
        for _ in range(MARKER_TRIES):
            written, seen = self._witness.ends.written(self._places), self._witness.ends.committed(self._places)
            if written == seen:
                return
            self._sleep(MARKER_PAUSE_S)
        place = next(one for one in self._places if seen[one] < written[one])
        raise UnavailableError(
            f"{place.topic}/{place.partition}: a transaction is open at offset {seen[place]}, and {self._who} has "
            f"none: nothing behind it can be read. If its writer is gone, {how_to_end(place, seen[place])}"
        )


def how_to_end(place: TopicPartition, offset: int) -> str:
    """What an operator does about a transaction that nobody ends."""
    return (
        f"end it: 'kafka-transactions.sh --bootstrap-server … abort --topic {place.topic} --partition "
        f"{place.partition} --start-offset {offset}'"
    )
