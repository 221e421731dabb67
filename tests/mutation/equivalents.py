"""Mutants that no test can tell from the code as it stands, each with the reason; they count in no score."""

from __future__ import annotations

from mutation.operators import Mutant

_FROM_ONE = "it counts from 1, so nothing lies between 0 and 1"

EQUIVALENT: dict[tuple[str, str, str], str] = {
    ("state/backlog.py", "", "1 for 0"): f"a floor is a sequence: {_FROM_ONE}",
    (
        "state/backlog.py",
        "Backlog.add",
        "without self._applied: "
        "self._applied and (not self._pending) and (milestone.sequence != self._sequence + 1)",
    ): "a reader that has applied nothing jumps, with or without a gap",
    (
        "query/top_n.py",
        "Ranking.offer",
        "< for >=: len(self._kept) >= 2 * self._most + 1",
    ): "the list is only sorted more often",
    (
        "monitoring/job_status_fold.py",
        "_sampled",
        ">= for >: now_ms > newest",
    ): "at the same moment nothing is sampled again",
    ("state/size_census.py", "Tally.__init__", "3 for 2"): "the number of keys held affects only memory",
    ("protocol/recovery_log.py", "unrecorded", "2 for 1"): "no caller reads that account",
    (
        "state/backlog.py",
        "Backlog._check",
        "without self._applied: self._applied and milestone.sequence == self._sequence",
    ): "without one the sequence is 0, which no milestone has",
    ("driver/epoch.py", "Epochs.__init__", "2 for 1"): "each epoch puts its own number in the place of that one",
    (
        "events/formats.py",
        "confluent_numbers",
        "without one[0] == 0: one and one[0] == 0",
    ): "only what is framed counts, which is looked at once more behind it",
    (
        "monitoring/alert_rules.py",
        "_events_grow",
        "1 for 0",
    ): "three of one event are below the least number that counts",
    (
        "job/drafts/draft_proposal.py",
        "_equals_record_key",
        ">= for >: len(keyed) >= 0.9 * len(rows) > 0",
    ): "without rows there is no proposal, whatever its key would be",
    (
        "driver/row_proof.py",
        "_repeats",
        "<= for <: record.offset < mine.offset",
    ): "a record of the same offset is the same record, whose value is compared before",
    ("failover/forks.py", "_sides", "without (): fork.lines or ()"): "a fork that contradicts has lines",
    ("generations/source_topics.py", "Sources.firsts", "1 for 0"): "every topic named there has its partitions",
    (
        "job/row_room.py",
        "too_long",
        "without one.field: one.field and job.max_event_bytes > bound",
    ): "a measure whose value is a text has a field",
    (
        "mirror/topic_config_sync.py",
        "_more",
        ">= for >: _amount(one.value) > _amount(one.found)",
    ): "values that are equal are no difference",
    ("protocol/cuts.py", "Cut.covers", "2 for 1"): "no offset is below 0",
    ("util/suggestions.py", "safe", "<= for <: 0 <= begin < end"): "two different characters are not in one place",
    (
        "util/suggestions.py",
        "closest",
        "without mine in known: mine in known or mine in others",
    ): "an allowed word is the closest one to itself",
    ("util/suggestions.py", "closest", "2 for 1"): "only the first is read",
}
"""(module, function, what) → reason."""


def reason_of(mutant: Mutant) -> str | None:
    return EQUIVALENT.get((mutant.module, mutant.scope, mutant.what))
