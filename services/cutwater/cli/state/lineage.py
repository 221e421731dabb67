"""`lineage`: shows which milestones of another job a job's milestones contain."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cutwater.adapters.topics import commit_stream
from cutwater.cli.options import (
    BootstrapOption,
    DataDirOption,
    JobNameOption,
    JobOption,
    JsonOption,
    WideOption,
    find_job,
)
from cutwater.cli.report import err, iso, print_report, report_errors
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.generation import Token
from cutwater.core.protocol.records import Milestone
from cutwater.operations.lineage import Lineage, lineage_of, require_upstream

LIMIT_MAX = 1_000


@report_errors
def lineage(
    job_file: JobOption = None,
    at: Annotated[str | None, typer.Option(help="Token of the milestone. Default: the newest.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="Number of newest milestones to show.")] = 1,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Show which milestones of the upstream job a milestone contains, if the source is another job's output.

    It contains every upstream milestone up to 'whole', and of those after it up to 'partly' a part: some of their
    rows have been read, and some have not. If both are the same, the milestone is of exactly that state.

    Exit 2: the job reads no other job's output, the token does not exist, or retention has deleted that part of
    the output. 4: no broker answers. 9: the output has lost its end.

    Examples:  cutwater lineage --job revenue  ·  cutwater lineage --job revenue --at g1-local-00000000:42 --json
    ·  cutwater lineage revenue.yaml --bootstrap-servers kafka-1:9092 --limit 10
    """
    place = find_job(job_file, bootstrap_servers, data_dir, job_name)
    require_upstream(place.job)
    with err.status("reading milestones and output"):
        read = commit_stream.milestones(place.cluster, place.job.name, None if at else limit)
        wanted = _at([one for one, _ in read], Token.parse(at)) if at else [one for one, _ in read]
        found = [lineage_of(place.cluster, place.job, one) for one in wanted]
    documents = [_lineage_json(place.job, one) for one in found]
    rows = [[iso(one.milestone.committed_ms), *_row(one)] for one in found]
    title = f"milestones of {place.job.upstream or place.job.topic} in those of {place.job.name}"
    print_report(title, ("committed", "milestone", "whole", "partly"), rows, documents, as_json)


def _at(found: list[Milestone], token: Token) -> list[Milestone]:
    wanted = [one for one in found if one.token == token]
    if not wanted:
        raise UsageError(f"{token} is not on the commit stream: 'cutwater milestones' lists those that are")
    return wanted


def _row(one: Lineage) -> tuple[str, str, str]:
    whole, partly = one.contained
    return str(one.milestone.token), str(whole or "none"), str(partly or "none")


def _lineage_json(job: Job, one: Lineage) -> dict[str, Any]:
    cut = one.milestone.source_cut
    return {
        "token": one.milestone.token,
        "committed": iso(one.milestone.committed_ms),
        "upstream": job.upstream,
        "topic": job.topic,
        **one.contained._asdict(),
        "partitions": [
            {
                "partition": number,
                "next": cut.offset(TopicPartition(job.topic, number)),
                "whole": reach.ended_token,
                "partly": reach.newest_token,
            }
            for number, reach in one.reaches.items()
        ],
    }


def register(app: typer.Typer) -> None:
    app.command()(lineage)
