"""`cutwater forks` on a real broker: the copies and the claim of a failover are written by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.cli.main import app
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.mirror_records import milestones_from
from cutwater.core.protocol.records import Claim
from support.cli.jsonshapes import parsed
from support.protocol_samples import GENERATION, milestone
from support.views.changelogs import make_job

OURS = Generation(2, "there", "0badcafe")


def test_a_fork_that_was_copied_is_listed_decided_and_listed_as_decided(broker: Any, tmp_path: Path) -> None:
    """Exit 1 until a decision; then 0, with the line that counts. A generation outside the fork is refused."""
    job, job_file = make_job(tmp_path)
    copy = milestones_from(job.name, "us")
    commit_stream = topics.generation_topics(job.name, GENERATION, 2)
    stream = next(one for one in commit_stream if one.name == topics.milestones(job.name))
    ensure_topics(broker.cluster, [*commit_stream, replace(stream, name=copy)])
    parent = milestone(0, job=job.name, sequence=1)
    after = replace(milestone(1, job=job.name, sequence=2), parent_hash=protocol_records.hash_of(parent))
    writer = TransactionalWriter(broker.cluster, topics.claims_id(job.name))
    writer.initialise()
    writer.write(copy, [protocol_records.encode(one) for one in (parent, after)])
    claim = Claim(job.name, OURS, protocol_records.encode(parent), 2, 0, "a test", 1, origin="us")
    writer.write(topics.candidates(job.name), [protocol_records.encode(claim)])

    def call(*words: str) -> tuple[int, Any]:
        place = [str(job_file), "--bootstrap-servers", broker.cluster.bootstrap, "--json"]
        done = CliRunner().invoke(app, ["forks", *words, *place])
        return done.exit_code, parsed(["forks", *words], done.stdout) if done.stdout else done.stderr

    code, told = call("list")
    (fork,) = told["forks"]
    assert (code, fork["origin"], fork["milestones"], fork["decision"]) == (1, "us", 1, None)
    code, why = call("decide", "--keep", "g7-eu-0badcafe", "--reason", "a test")
    assert (code, "takes part in no fork" in why) == (2, True)
    assert call("decide", "--keep", str(OURS), "--reason", "readers follow it")[0] == 0
    code, told = call("list")
    assert (code, told["forks"][0]["decision"]["keeps"]) == (0, str(OURS))
