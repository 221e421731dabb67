"""Check that everything a transactional writer has written still exists, before it writes more.

A log can lose its end only by a leader change or by recreation of the topic. So while both are unchanged, one
check is enough.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.open_transactions import how_to_end
from cutwater.adapters.topics.log_evidence import LogCheck, LogState
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.log_evidence import Evidence

MARKER_TRIES, MARKER_PAUSE_S = 200, 0.1
"""Number of checks that a transaction has ended in each partition, and the pause between them."""


class OwnLog:
    """The log of one writer; `places`: every partition that it alone writes to."""

    def __init__(
        self,
        cluster: Cluster,
        places: Sequence[TopicPartition],
        who: str,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._witness = LogCheck(cluster)
        self._places, self._who, self._sleep = places, who, sleep
        self._seen = LogState({}, {})

    @property
    def cut(self) -> Cut:
        return self._seen.cut

    @property
    def evidence(self) -> Evidence:
        return self._seen.evidence

    def begin(self, evidence: Evidence = (), cut: Cut | None = None) -> None:
        """Check the previous owner's writes, after fencing it. `evidence`, `cut`: of its last check, if known.

        Raises LostRecordsError; UnavailableError as `require` does.
        """
        self._await_markers()
        look = self._witness.read_state(self._places)
        self._witness.require(evidence, cut or Cut(), f"what {self._who} wrote", look)
        self._seen = look

    def require(self, last_is_kept: Callable[[], None]) -> None:
        """Raise LostRecordsError if written records are lost. Call it between two transactions.

        Evidence covers what existed at the previous check; `last_is_kept` checks what was written since. Raises
        UnavailableError if the end of a transaction is lost, which hides the records after it.
        """
        look = self._witness.read_state(self._places)
        # A topic recreated between the two queries of one check shows its old topic id with its new end.
        self._witness.require(self._seen.evidence, self._seen.cut, f"what {self._who} wrote", look)
        if look.evidence != self._seen.evidence:
            self._await_markers()
            last_is_kept()
        self._seen = look

    def _await_markers(self) -> None:
        # Wait until committed records can be read: Kafka ends a transaction in each partition separately, and
        # soon.
        for _ in range(MARKER_TRIES):
            ends = self._witness.ends
            written, seen = ends.written_ends(self._places), ends.committed_ends(self._places)
            if written == seen:
                return
            self._sleep(MARKER_PAUSE_S)
        place = next(one for one in self._places if seen[one] < written[one])
        raise UnavailableError(
            f"{place.topic}/{place.partition}: a transaction is open at offset {seen[place]}, and {self._who} has "
            f"none: no later record can be read. If its writer is gone, {how_to_end(place, seen[place])}"
        )
