"""The replication of Cutwater's topics: safe by default, and never above the number of brokers."""

from __future__ import annotations

from dataclasses import dataclass

from cutwater.core.errors import UsageError

FACTOR_WANTED = 3
"""With three copies and two acknowledgements, one broker may stop and no acknowledged record is lost."""


@dataclass(frozen=True)
class Replication:
    """The copies of a partition, and how many of them must hold a record before it is acknowledged."""

    factor: int
    min_insync: int


UNREPLICATED = Replication(1, 1)


def decide(brokers: int, factor: int = 0, min_insync: int = 0) -> Replication:
    """Return the replication for a cluster; 0 means "the safe default".

    Raises UsageError, naming the setting, for values that the cluster cannot satisfy.
    """
    chosen = factor or min(FACTOR_WANTED, brokers)
    if chosen > brokers:
        raise UsageError(
            f"CUTWATER_REPLICATION_FACTOR is {chosen} and the cluster has {brokers} "
            f"broker{'s' if brokers != 1 else ''}: set it to at most {brokers}"
        )
    # One less than the copies, so that one broker may stop without stopping the job.
    acknowledged = min_insync or max(1, chosen - 1)
    if acknowledged > chosen:
        raise UsageError(
            f"CUTWATER_MIN_INSYNC_REPLICAS is {acknowledged} and there are {chosen} copies: no record could be "
            "acknowledged; set it below CUTWATER_REPLICATION_FACTOR"
        )
    return Replication(chosen, acknowledged)


def doubts(replication: Replication, brokers: int) -> list[str]:
    found = []
    if replication.factor < FACTOR_WANTED:
        why = f"brokers: {brokers}" if brokers < FACTOR_WANTED else "CUTWATER_REPLICATION_FACTOR says so"
        found.append(f"copies of each topic: {replication.factor}, and {FACTOR_WANTED} are usual ({why})")
    if replication.min_insync < 2:
        found.append(
            "a record is acknowledged by one broker alone: it is lost with the broker's disk, or with its power "
            "before it has flushed"
        )
    elif replication.min_insync == replication.factor:
        found.append("every copy must acknowledge: when one broker stops, so does the job")
    return found
