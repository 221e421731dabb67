"""Records what a stack has added to a user's cluster, beside its data, so that `down --delete` can undo it.

Only topics that Cutwater itself created are ever deleted.
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
    """Topics of the job that existed before."""

    def write(self, data_dir: Path) -> None:
        """Write the file atomically."""
        data_dir.mkdir(parents=True, exist_ok=True)
        temporary = data_dir / f"{FILE}.tmp"
        temporary.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")
        temporary.replace(data_dir / FILE)


def read(data_dir: Path) -> Added | None:
    """Read the folder's record; None if nothing was added. Raise UsageError if the file is damaged."""
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
    """Record what is about to be created: after a crash no topic may be unknown. Raise UsageError if the folder
    belongs to another job or cluster."""
    identity, before = admin.cluster_id(cluster), read(data_dir)
    if before and (before.cluster_id, before.job) != (identity, job):
        raise UsageError(
            f"{data_dir} belongs to job {before.job} on the cluster at {before.bootstrap_servers}: name another "
            "--data-dir, or remove that job with 'cutwater down --delete'"
        )
    there = set(admin.describe_topics(cluster, wanted))
    # Topics of an earlier start count, too: it may have had another generation.
    ours = dict.fromkeys((*(before.created if before else ()), *(name for name in wanted if name not in there)))
    found = tuple(name for name in wanted if name not in ours)
    added = Added(identity, cluster.bootstrap, job, source, created=tuple(ours), found=found)
    added.write(data_dir)
    return added


def left_over(cluster: Cluster, added: Added) -> Added:
    """Return `added` with later generations' changelogs, and without topics that no longer exist. Raise UsageError
    if this is another cluster."""
    if (identity := admin.cluster_id(cluster)) != added.cluster_id:
        raise UsageError(
            f"{cluster.bootstrap} is cluster {identity}, but job {added.job} was added to {added.cluster_id}: "
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
    """Return the changelogs of the claimed generations. Only if the stack created the claims' topic: else the
    claims may be of a job that existed before."""
    name = topics.candidates(added.job)
    if name not in added.created or not admin.describe_topics(cluster, [name]):
        return []
    return [topics.changelog(added.job, one) for one in candidates(cluster, added.job).by_id]
