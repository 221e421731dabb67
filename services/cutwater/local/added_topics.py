"""What a stack has added to a user's own cluster: kept beside its data, so that `down --delete` can undo it.

Only topics that Cutwater itself created are ever deleted; those it found there are left to whoever made them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.candidates import candidates
from cutwater.core.errors import UsageError
from cutwater.core.protocol import topics

FILE = "added.json"


@dataclass(frozen=True)
class Added:
    """Topics of one job on one cluster."""

    cluster_id: str
    bootstrap_servers: str
    job: str
    source: str
    """The user's own topic: never deleted."""
    created: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    """Topics of the job that were there before."""

    def write(self, data_dir: Path) -> None:
        """Whole or not at all."""
        data_dir.mkdir(parents=True, exist_ok=True)
        temporary = data_dir / f"{FILE}.tmp"
        temporary.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")
        temporary.replace(data_dir / FILE)


def read(data_dir: Path) -> Added | None:
    """What stands in the folder; None when nothing was added. Raises UsageError when the file is damaged."""
    path = data_dir / FILE
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        return Added(**{**plain, "created": tuple(plain["created"]), "found": tuple(plain["found"])})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(
            f"{path} cannot be read ({error!r}): it lists what Cutwater added to your cluster"
        ) from None


def intend(cluster: Cluster, data_dir: Path, job: str, source: str, wanted: Sequence[str]) -> Added:
    """Write down what is about to be created, before it is: a crash in between must not leave strangers.

    Raises UsageError when the folder belongs to another job or cluster.
    """
    identity, before = admin.cluster_id(cluster), read(data_dir)
    if before and (before.cluster_id, before.job) != (identity, job):
        raise UsageError(
            f"{data_dir} belongs to job {before.job} on the cluster at {before.bootstrap_servers}: name another "
            "--data-dir, or remove that one with 'cutwater down --delete'"
        )
    there = set(admin.describe_topics(cluster, wanted))
    # What an earlier start made counts too: it began with another generation, perhaps.
    ours = dict.fromkeys((*(before.created if before else ()), *(name for name in wanted if name not in there)))
    found = tuple(name for name in wanted if name not in ours)
    added = Added(identity, cluster.bootstrap, job, source, created=tuple(ours), found=found)
    added.write(data_dir)
    return added


def left_over(cluster: Cluster, added: Added) -> Added:
    """`added` with later generations' changelogs, and without what is gone already.

    Raises UsageError when this is not the cluster it was added to.
    """
    if (identity := admin.cluster_id(cluster)) != added.cluster_id:
        raise UsageError(
            f"{cluster.bootstrap} is cluster {identity}, and job {added.job} was added to {added.cluster_id}: "
            "nothing was deleted"
        )
    ours = dict.fromkeys((*added.created, *_claimed(cluster, added)))
    found = [one for one in added.found if one not in ours]
    there = admin.describe_topics(cluster, [*ours, *found])
    return replace(
        added,
        created=tuple(one for one in ours if one in there and one != added.source),
        found=tuple(one for one in found if one in there),
    )


def _claimed(cluster: Cluster, added: Added) -> list[str]:
    """The changelogs of the generations that were claimed, wherever that was.

    Only where the claims stand on a topic of our own: else they may be those of a job that was there before.
    """
    name = topics.candidates(added.job)
    if name not in added.created or not admin.describe_topics(cluster, [name]):
        return []
    return [topics.changelog(added.job, one) for one in candidates(cluster, added.job).by_id]
