"""`verify`: compares changelog, view, Spark's state and output at one milestone."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cutwater.adapters.config.settings import environment
from cutwater.adapters.topics.generation_jobs import working_for
from cutwater.cli.action_audit import audit_action
from cutwater.cli.options import (
    BootstrapOption,
    DataDirOption,
    JobContext,
    JobNameOption,
    JobOption,
    JsonOption,
    WideOption,
    find_job,
)
from cutwater.cli.report import err, milestone_json, out, print_json, print_note, report_errors, table
from cutwater.cli.state.comparison import DIFFERENCE, difference_json, difference_row, sum_json
from cutwater.core.access.actions import REPAIR
from cutwater.core.checks.state_comparison import (
    CHANGELOG,
    PLACES,
    STATE,
    Answer,
    Verdict,
    exit_code,
    next_steps,
)
from cutwater.core.errors import UsageError
from cutwater.core.protocol.generation import Token
from cutwater.core.util.text_tables import Column, Styled
from cutwater.operations.correction_order import ROWS_MAX
from cutwater.verify.run import Request, Result
from cutwater.verify.run import verify as run_verification

if TYPE_CHECKING:
    from cutwater.cli.state.repair import Repair

DEFAULT_PLACES = tuple(one for one in PLACES if one != STATE)
"""Without Spark's state, which needs a Spark process."""
_COLOURS = {Verdict.EQUAL: "green", Verdict.DIFFERENT: "red", Verdict.UNKNOWN: "yellow", Verdict.SKIPPED: "dim"}


@report_errors
def verify(
    job_file: JobOption = None,
    at: Annotated[
        str | None, typer.Option(help="Token of the milestone. Default: the newest that the places hold.")
    ] = None,
    place: Annotated[
        list[str] | None, typer.Option(help=f"Only this place; may be repeated: {', '.join(PLACES)}.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, max=100_000, help="Differing rows to show.")] = 20,
    rows_max: Annotated[
        int, typer.Option(min=1, max=10**9, help="Limit of rows per place, which are stored on disk meanwhile.")
    ] = 5_000_000,
    state: Annotated[
        bool, typer.Option("--state", help="Compare Spark's state too, with a Spark process (at least 20 s).")
    ] = False,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="If view or output differ, print how they are repaired; with --yes repair them."
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="With --repair: rebuild the view, publish corrections.")
    ] = False,
    api_url: Annotated[str | None, typer.Option(help="URL of the rehydrator, with --bootstrap-servers.")] = None,
    region: Annotated[
        str | None,
        typer.Option(
            help="Compare this region's changelog with its copy here. CUTWATER_ORIGIN_* name its brokers."
        ),
    ] = None,
    bytes_per_s: Annotated[
        int,
        typer.Option(min=0, help="With --region: limit of bytes read per second, both sides together; 0: none."),
    ] = 0,
    every: Annotated[
        str | None, typer.Option(help="With --region: compare again at this interval (60s, 5m), until Ctrl-C.")
    ] = None,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> int:
    """Compare the changelog, the view and the output at one milestone, row by row.

    Nothing is written and nothing is stopped. The changelog is the reference, since milestones prove its rows. For
    a row that differs, the places that most others contradict are listed, with the next step. With --state (or
    --place state) Spark's state is compared too, which has open windows only. A separate Spark process reads it
    from the checkpoint of the settings, which keeps 100 epochs.

    With --repair a view that differs from a proved changelog is rebuilt: its process is killed, starts again,
    removes the folder and reads the changelog without a snapshot. Until then it answers 503. Without --yes the
    command only prints this. After the rebuild it compares again, and the exit code is that of the new comparison.
    Rows of the output that differ (the first 100,000) are corrected: the publisher reads their values from the
    changelog, and writes them in the transaction of its next milestone.

    With --region the copy here is compared with its origin, at a milestone that has arrived: digests by shard, and
    the rows of shards that differ.

    Exit 0: all places are equal. 1: a place differs. 2: no stack runs, or the token is not on the stream. 4: a
    place does not answer or cannot be compared; trying again may work.

    Examples:  cutwater verify  ·  cutwater verify --place changelog --place output --json
    ·  cutwater verify job.yaml --bootstrap-servers kafka-1:9092 --api-url http://view:8321
    ·  cutwater verify --at g1-local-00000000:42 --limit 100  ·  cutwater verify job.yaml --region us --every 60s
    """
    if region is not None:
        if place or api_url or data_dir or state or repair:
            refused = "--place, --state, --repair, --api-url and --data-dir"
            raise UsageError(f"--region compares changelogs: without {refused}")
        from cutwater.cli.state import verify_regions

        asked = verify_regions.request(job_file, region, bootstrap_servers, at, limit, rows_max)
        return verify_regions.run(asked, bytes_per_s, every, as_json)
    if bytes_per_s or every:
        raise UsageError("--bytes-per-s and --every need --region: they are for a comparison between regions")
    unknown = sorted(set(place or ()) - set(PLACES))
    if unknown:
        raise UsageError(f"'{unknown[0]}' is not a place; the places are: {', '.join(PLACES)}")
    found = find_job(job_file, bootstrap_servers, data_dir, job_name)
    wanted = {*(place or DEFAULT_PLACES), *([STATE] if state else [])}
    request = _request(found, api_url, wanted, at, ROWS_MAX if repair else limit, rows_max)
    result = _verified(request)
    repairs = _repairs(found, result) if repair else []
    repaired = [one.plan for one in repairs]
    if repairs and yes:
        if not as_json:
            _show(result, limit)
        with audit_action(REPAIR, found.settings, found.cluster, found.job.name) as action:
            repaired = [_run(one) for one in repairs]
            action.record_result("; ".join(repaired))
        result = _verified(replace(request, at=None))
    if as_json:
        shown = replace(result, differences=result.differences[:limit])
        print_json(verification_json(shown, "; ".join(repaired) or None))
    else:
        _show(result, limit)
        for line in repaired or next_steps(result.answers):
            print_note(line)
    return exit_code(result.answers)


def _repairs(place: JobContext, result: Result) -> list[Repair]:
    from cutwater.cli.state.repair import (
        repairs_of,  # imports RocksDB and an HTTP client
    )

    return repairs_of(place, result)


def _run(one: Repair) -> str:
    with err.status(one.doing):
        return one.run()


def _verified(request: Request) -> Result:
    with err.task("verifying", "rows") as progress:
        return run_verification(request, lambda where, rows: progress(rows, f"reading {where}"))


def _request(
    place: JobContext,
    api_url: str | None,
    places: Any,
    at: str | None,
    limit: int,
    rows_max: int,
) -> Request:
    cluster, settings = place.cluster, place.settings
    url = place.stack.api_url if place.stack else f"http://{settings.host}:{settings.port}"
    token = Token.parse(at) if at else None
    if token:
        settings = settings.model_copy(update={"generation": token.generation})
    job, settings = working_for(place.job, settings)

    def spark_env() -> dict[str, str]:
        from cutwater.local.jars import connectors
        from cutwater.local.spark_runtime import spark_environment

        return {
            **environment(cluster),
            "CUTWATER_DATA_DIR": str(settings.data_dir),
            "CUTWATER_SPARK_JARS": settings.spark_jars or ",".join(map(str, connectors(settings.checkpoint))),
            "CUTWATER_SPARK_MASTER": "local[*]",
            **spark_environment(),
        }

    return Request(
        job=job,
        job_file=place.job_file,
        cluster=cluster,
        generation=settings.generation,
        places=[one for one in PLACES if one in places or one == CHANGELOG],
        at=token,
        limit=limit,
        rows_max=rows_max,
        api_url=api_url or url,
        api_headers=settings.api_headers,
        spark_env=spark_env,
    )


def verification_json(result: Result, repaired: str | None = None) -> dict[str, Any]:
    """Return a verification as JSON prints it. `repaired`: what was repaired, or would be."""
    return {
        "milestone": milestone_json(result.milestone),
        "places": [_answer_json(one) for one in result.answers],
        "differing_rows": result.differing_rows,
        "differences": [difference_json(one) for one in result.differences],
        "next_steps": next_steps(result.answers),
        "repair": repaired,
    }


def _answer_json(one: Answer) -> dict[str, Any]:
    plain = asdict(one)
    for name in ("found", "expected"):
        plain[name] = sum_json(getattr(one, name))
    return plain


def _show(result: Result, limit: int) -> None:
    columns = (
        *("place", "rows", Column("digest", 2), Column("the changelog's", 1), Column("its digest", 3)),
        *("verdict", Column("reason", below=True)),
    )
    out.table(table(f"verified at {result.milestone.token}", columns, map(_row, result.answers)))
    if STATE in {one.place for one in result.answers}:
        out.print("Spark's state has open windows only; it is compared with those of the changelog.")
    if not result.differing_rows:
        return
    shown = result.differences[:limit]
    title = f"rows that differ: {len(shown):,} of {result.differing_rows:,}"
    out.table(table(title, DIFFERENCE, map(difference_row, shown)))


def _row(one: Answer) -> tuple[str | int | Styled, ...]:
    verdict = Styled(one.verdict, _COLOURS[one.verdict])
    wrong = f"{one.differences:,} rows" if one.differences else ""
    reason = "; ".join(text for text in (wrong, one.reason) if text)
    if one.verdict in (Verdict.UNKNOWN, Verdict.SKIPPED):
        return one.place, "", "", "", "", verdict, reason
    sums = (one.found.rows, f"{one.found.digest:016x}", one.expected.rows, f"{one.expected.digest:016x}")
    return one.place, *sums, verdict, reason


def register(app: typer.Typer) -> None:
    app.command()(verify)
