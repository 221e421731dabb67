"""`prepare`: creates a job's topics on your own cluster, for processes that 'cutwater up' does not start."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cutwater.adapters.job_files.loader import load_job
from cutwater.cli.action_audit import audit_action
from cutwater.cli.options import BootstrapOption, DataDirOption, JsonOption, settings_for
from cutwater.cli.report import err, out, print_json, report_errors
from cutwater.core.access.actions import PREPARE
from cutwater.local import job_topics


@report_errors
def prepare(
    job_file: Annotated[Path, typer.Argument(help="The job file.")],
    source: Annotated[
        bool, typer.Option("--source", help="Create the source topic too, if it is missing.")
    ] = False,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a job's missing topics on your cluster, after checking the existing ones.

    'cutwater up' does the same when it starts. The data folder lists the created topics, so that 'cutwater down
    --delete' with this folder can remove them.

    Exit 2: the job file is wrong, the source topic is missing, or a topic has other settings. 4: no broker
    answers.

    Examples:  cutwater prepare deploy/jobs/flights.yaml --bootstrap-servers 127.0.0.1:9092
    ·  cutwater prepare job.yaml --source --json
    """
    settings = settings_for(data_dir, bootstrap_servers)
    job, cluster = load_job(job_file), settings.cluster
    action = audit_action(PREPARE, settings, cluster, job.name, given={"source": source})
    with err.status(f"asking {cluster.bootstrap}"):
        created = job_topics.prepare(
            cluster, job, settings, lambda line: err.print(line, whole=True), source=source
        )
    action.done(f"created: {', '.join(created) or 'nothing'}")  # the log is one of these topics
    if as_json:
        print_json({"created": created})
    else:
        for name in created:
            out.print(f"created topic {name}", whole=True)
        if not created:
            out.print("all topics exist")


def register(app: typer.Typer) -> None:
    app.command()(prepare)
