"""How many copies of Cutwater's topics: safe by default, and never more than there are brokers."""

from __future__ import annotations

from dataclasses import dataclass

from cutwater.core.errors import UsageError

FACTOR_WANTED = 3
"""Three copies, of which two must acknowledge: one broker may stop, and nothing acknowledged is lost."""


@dataclass(frozen=True)
class Replication:
    """Copies of a partition, and how many of them must hold a record before it is acknowledged."""

    factor: int
    min_insync: int


UNREPLICATED = Replication(1, 1)
"""For the embedded broker, which is alone."""


def decide(brokers: int, factor: int = 0, min_insync: int = 0) -> Replication:
    """The copies to ask for on a cluster; 0 means "what is safe here".

    Raises UsageError, naming the setting, for what the cluster cannot hold.
    """
    chosen = factor or min(FACTOR_WANTED, brokers)
    if chosen > brokers:
        raise UsageError(
            f"CUTWATER_REPLICATION_FACTOR is {chosen} and the cluster has {brokers} "
            f"broker{'s' if brokers != 1 else ''}: set it to {brokers} at most"
        )
    # One less than the copies: one broker may stop without stopping the job.
    acknowledged = min_insync or max(1, chosen - 1)
    if acknowledged > chosen:
        raise UsageError(
            f"CUTWATER_MIN_INSYNC_REPLICAS is {acknowledged} and there are {chosen} copies: no record would ever "
            "be acknowledged; set it below CUTWATER_REPLICATION_FACTOR"
        )
    return Replication(chosen, acknowledged)


def doubts(replication: Replication, brokers: int) -> list[str]:
    """What a person should know about these copies; empty when they are safe."""
    found = []
    if replication.factor < FACTOR_WANTED:
        why = f"brokers: {brokers}" if brokers < FACTOR_WANTED else "CUTWATER_REPLICATION_FACTOR says so"
        found.append(f"copies of each topic: {replication.factor}, and {FACTOR_WANTED} are usual ({why})")
    if replication.min_insync < 2:
        found.append(
            "a record is acknowledged by one broker alone: if its disk is lost, or its power before it has "
            "flushed, so is the record"
        )
    elif replication.min_insync == replication.factor:
        found.append("every copy must acknowledge: when one broker stops, so does the job")
    return found
