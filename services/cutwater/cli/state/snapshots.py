"""`snapshots`: lists, verifies, prunes and creates snapshots of a job's views in their object store."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.filesize import decimal

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.http.client_options import direct_options
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.candidates import parents_needed
from cutwater.cli.action_audit import audit_action
from cutwater.cli.options import DataDirOption, JobNameOption, JsonOption, WideOption, cluster_for, settings_for
from cutwater.cli.report import err, iso, out, print_json, print_note, print_report, report_errors
from cutwater.core.access.actions import PRUNE_SNAPSHOTS, SNAPSHOT
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.state.snapshot_manifest import Manifest, Names, Policy, Unusable
from cutwater.core.util.printable_text import printable
from cutwater.core.util.text_tables import Column, Lines
from cutwater.local import running_file
from cutwater.views.snapshots.object_store_tier import Pruned, SnapshotRepository
from cutwater.views.snapshots.repositories import SnapshotRepositories, repositories_at

ASK_S = 30.0
LOOK_S = 0.5
_MB = 1_000_000
_PROBLEM = Column("problem", below=True)

app = typer.Typer(
    help="Snapshots of a job's views: list, verify, prune or create them.\n\n"
    "Examples:  cutwater snapshots list  ·  cutwater snapshots verify  ·  cutwater snapshots prune --dry-run",
    no_args_is_help=True,
)

JobOption = Annotated[
    Path | None,
    typer.Argument(help="The job file, with --store or CUTWATER_SNAPSHOTS. Default: the running stack's."),
]
StoreOption = Annotated[
    str | None,
    typer.Option(help="Folder or URL of the snapshots. Default: CUTWATER_SNAPSHOTS, or the stack's."),
]


@dataclass(frozen=True)
class _SnapshotContext:
    job: str
    store: SnapshotRepositories
    settings: Settings
    api_url: str
    cluster: Cluster | None
    """None if no brokers are named."""

    def needed(self, shelf: SnapshotRepository) -> frozenset[int]:
        """Return the parent milestones of open claims; none without brokers. Raises as `parents_needed`."""
        try:
            generation = Generation.parse(shelf.names.generation)
        except UsageError:  # not a folder of Cutwater
            return frozenset()
        if self.cluster is None:
            return frozenset()
        try:
            return parents_needed(self.cluster, self.job, generation)
        except UnavailableError as error:
            raise UnavailableError(
                f"{error}. If the job's topics are deleted for good, so that no claim is open, name no brokers: "
                "unset CUTWATER_BOOTSTRAP_SERVERS"
            ) from None

    def repositories(self) -> list[SnapshotRepository]:
        return self.store.below(self.job)


@dataclass
class _ListedSnapshot:
    """A snapshot, or the reason why it cannot be used."""

    shelf: SnapshotRepository
    sequence: int
    manifest: Manifest | None
    problem: str = ""

    @property
    def token(self) -> str:
        return f"{self.shelf.names.generation}:{self.sequence}"

    def as_object(self) -> dict[str, Any]:
        one = self.manifest
        plain = {"token": self.token, "share": self.shelf.names.share, "problem": self.problem}
        if one is None:
            return plain
        partitions = None if one.partitions is None else sorted(one.partitions)
        told = {"created": iso(one.created_ms), "files": len(one.files), "bytes": one.size}
        return {**plain, "partitions": partitions, **told}


@app.command("list")
@report_errors
def list_snapshots(
    job_file: JobOption = None,
    store: StoreOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> int:
    """List the snapshots, newest first, and their sizes.

    Exit 1: a manifest cannot be read; it is listed. 2: no store is named. 4: the store does not answer.

    Examples:  cutwater snapshots list  ·  cutwater snapshots list job.yaml --store s3://backups/cutwater --json
    """
    place = _place(job_file, store, data_dir, job_name)
    with err.status("listing snapshots"):
        shelves = place.repositories()
        found = [one for shelf in shelves for one in _snapshots_in(shelf)]
        stored = sum(size for shelf in shelves for size in shelf.stored().values())
    document = {"store": place.store.place, "stored_bytes": stored, "snapshots": [*map(_plain, found)]}
    columns = ("token", Column("share", 1), Column("taken", 3), Column("files", 4), Column("size", 2), _PROBLEM)
    title = f"snapshots of {place.job} in {place.store.place}: {decimal(stored)} stored"
    print_report(title, columns, map(_row, found), document, as_json)
    return 1 if any(one.problem for one in found) else 0


@app.command("verify")
@report_errors
def verify_snapshots(
    job_file: JobOption = None,
    token: Annotated[
        str | None, typer.Option("--at", help="Only the snapshot of this token. Default: all.")
    ] = None,
    store: StoreOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
) -> int:
    """Read every file of the snapshots, and compare size and SHA-256 with the manifests.

    A file that several snapshots share is read once. Nothing is written.

    Exit 0: all files are right. 1: a file is damaged or missing; it is printed. 2: there is no such snapshot. 4:
    the store does not answer.

    Examples:  cutwater snapshots verify  ·  cutwater snapshots verify --at g1-local-00000000:42
    ·  cutwater snapshots verify job.yaml --store s3://backups/cutwater --json
    """
    place = _place(job_file, store, data_dir, job_name)
    with err.status("listing snapshots"):
        found = [
            one for shelf in place.repositories() for one in _snapshots_in(shelf) if token in (None, one.token)
        ]
    if token is not None and not found:
        raise UsageError(f"there is no snapshot of {token} in {place.store.place}; see 'cutwater snapshots list'")
    _read_all(found, quiet=as_json)
    damaged = [one for one in found if one.problem]
    if as_json:
        print_json({"store": place.store.place, "snapshots": [*map(_plain, found)]})
    else:
        for one in damaged:
            print_note(f"damaged: {one.token} ({one.shelf.names.share}): {one.problem}")
        out.print(f"{len(found) - len(damaged)} of {len(found)} snapshots are undamaged")
    return 1 if damaged else 0


@app.command("prune")
@report_errors
def prune_snapshots(
    job_file: JobOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be done.")] = False,
    drop_unreadable: Annotated[
        bool,
        typer.Option("--drop-unreadable", help="Delete unreadable manifests, which else prevent all deletions."),
    ] = False,
    store: StoreOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> int:
    """Apply the snapshot retention and delete unused files, as a rehydrator does after each snapshot.

    CUTWATER_SNAPSHOT_KEEP_LAST, …_HOURS and …_DAYS set what is kept. A file is deleted when no manifest has named
    it for CUTWATER_SNAPSHOT_GRACE_MS, which must be the same for all writers to the store. The newest snapshot is
    always kept. If brokers are named (CUTWATER_BOOTSTRAP_SERVERS, or a stack), the parents of claimed generations
    are kept too. With CUTWATER_SNAPSHOT_KEY, a manifest without its signature counts as unreadable; it is dropped
    only if another one in the same place is signed.

    Exit 1: a manifest cannot be read, and no file is deleted. 2: no store is named. 4: the store or the
    brokers do not answer, or the brokers know no topic of the job.

    Examples:  cutwater snapshots prune --dry-run  ·  cutwater snapshots prune
    ·  cutwater snapshots prune job.yaml --store s3://backups/cutwater
    """
    place = _place(job_file, store, data_dir, job_name)
    policy = _policy(place.settings)
    if dry_run:
        done = _prune(place, policy, dry_run, drop_unreadable)
    else:
        told = {"store": place.store.place, "drop unreadable": drop_unreadable}
        with audit_action(PRUNE_SNAPSHOTS, place.settings, place.cluster, place.job, given=told) as action:
            done = _prune(place, policy, dry_run, drop_unreadable)
            action.record_result(f"{sum(one.deleted for _, one in done):,} files are deleted")
    shares = [{**asdict(shelf.names), **asdict(one)} for shelf, one in done]
    document = {"store": place.store.place, "dry_run": dry_run, "policy": policy._asdict(), "shares": shares}
    columns = (
        *("generation", Column("share", 1), Column("no longer kept", below=True)),
        *("files deleted", Column("size", 2), Column("cannot be read", below=True)),
    )
    rows = (
        (
            *(shelf.names.generation, shelf.names.share, ", ".join(map(str, one.retired))),
            *(one.deleted, decimal(one.bytes), Lines(one.unreadable)),
        )
        for shelf, one in done
    )
    print_report("what would be done" if dry_run else "pruned", columns, rows, document, as_json)
    return 1 if any(one.unreadable for _, one in done) else 0


def _prune(
    place: _SnapshotContext, policy: Policy, dry_run: bool, drop_unreadable: bool
) -> list[tuple[SnapshotRepository, Pruned]]:
    how = {"dry_run": dry_run, "drop_unreadable": drop_unreadable}
    with err.status("pruning snapshots"):
        return [
            (shelf, shelf.prune(policy, now_ms(), **how, needed=place.needed(shelf)))
            for shelf in place.repositories()
        ]


@app.command("create")
@report_errors
def create_snapshot(
    job_file: JobOption = None,
    wait: Annotated[float, typer.Option(min=0, max=86_400, help="Seconds to wait for its manifest.")] = 600.0,
    api_url: Annotated[str | None, typer.Option(help="URL of the rehydrator, with a job file.")] = None,
    store: StoreOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let the running rehydrator take a snapshot now, and wait until it is complete in the store.

    If several rehydrators share the partitions, each takes its own snapshots: name one with --api-url. A
    rehydrator of a standby region (CUTWATER_REPLICA_OF) takes a snapshot of the newest arrival, from which a
    failover can start (docs/FAILOVER.md). An existing snapshot is not replaced, even if it is damaged: check it
    with 'cutwater snapshots verify'.

    Exit 2: the rehydrator takes no snapshots, or no store is named. 4: it or the store does not answer in time.

    Examples:  cutwater snapshots create  ·  cutwater snapshots create --wait 60 --json
    ·  cutwater snapshots create job.yaml --api-url http://view-1:8321 --store s3://backups/cutwater
    """
    place = _place(job_file, store, data_dir, job_name, api_url)
    with audit_action(SNAPSHOT, place.settings, place.cluster, place.job, given={"api": api_url}) as action:
        found = _create(place, wait)
        action.record_result(f"{found.token} is in {place.store.place}")
    if as_json:
        print_json(found.as_object())
    else:
        out.print(f"{found.token}: in {place.store.place}")


def _create(place: _SnapshotContext, wait: float) -> _ListedSnapshot:
    """Let the rehydrator take one, and return it once it is in the store."""
    answer = _ask("POST", f"{place.api_url}/v1/snapshots", place.settings)
    token, share = Token.parse(str(answer["token"])), answer.get("share")
    if share is None:
        raise UsageError(
            f"the rehydrator at {place.api_url} took a snapshot of {token}, but does not report its place: it is "
            "of an earlier version than this command. Upgrade the rehydrator, or see 'cutwater snapshots list'"
        )
    shelf = place.store.repository(Names(place.job, str(token.generation), str(share)))
    with err.status(f"waiting for the snapshot of {token}"):
        _wait(shelf, token, wait)
    found = _read_snapshot(shelf, token.sequence)
    if found.problem:
        raise UsageError(
            f"the snapshot of {token} is in {place.store.place}, but cannot be used: {found.problem}. Check that "
            "the rehydrator has the same CUTWATER_SNAPSHOT_KEY as this command"
        )
    return found


def _wait(shelf: SnapshotRepository, token: Token, wait_s: float) -> None:
    until = time.monotonic() + wait_s
    while token.sequence not in shelf.sequences():
        if time.monotonic() >= until:
            raise UnavailableError(
                f"the snapshot of {token} was taken, but is not in {shelf.name} after {wait_s:g} s. Read the "
                "rehydrator's log, and check that it uses the same store"
            )
        time.sleep(LOOK_S)


def _place(
    job_file: Path | None,
    store: str | None,
    data_dir: Path | None,
    job_name: str | None,
    api_url: str | None = None,
) -> _SnapshotContext:
    settings = settings_for(data_dir)
    place = store or settings.snapshots
    if job_file is not None:
        job, url = load_job(job_file).name, api_url or f"http://{settings.host}:{settings.port}"
    else:
        stack = running_file.require(settings.data_dir, job_name)
        job, url, place = stack.job, api_url or stack.api_url, store or stack.snapshots or place
    if not place:
        raise UsageError("no store of snapshots is named: set CUTWATER_SNAPSHOTS, or give --store")
    return _SnapshotContext(job, repositories_at(place, settings), settings, url, cluster_for(settings, None))


def _policy(settings: Settings) -> Policy:
    return Policy(settings.snapshot_keep_last, settings.snapshot_keep_hours, settings.snapshot_keep_days)


def _snapshots_in(shelf: SnapshotRepository) -> Iterator[_ListedSnapshot]:
    return (_read_snapshot(shelf, one) for one in shelf.sequences())


def _read_snapshot(shelf: SnapshotRepository, sequence: int) -> _ListedSnapshot:
    try:
        return _ListedSnapshot(shelf, sequence, shelf.manifest(sequence))
    except Unusable as why:
        return _ListedSnapshot(shelf, sequence, None, str(why))


def _read_all(found: Iterable[_ListedSnapshot], quiet: bool) -> None:
    """Read each file once. A problem of a file counts for every snapshot that names it."""
    known: dict[tuple[str, str, int], str] = {}
    with err.task("reading", "MB", quiet=quiet, transient=False) as progress:
        for one in found:
            if one.manifest is None:
                continue
            done = 0
            for file in one.manifest.files:
                name = (one.shelf.names.folder, file.object, file.size)
                if name not in known:
                    known[name] = _problem(one.shelf, file)
                one.problem = one.problem or known[name]
                done += file.size
                progress(done // _MB, f"reading {printable(one.token)}", one.manifest.size // _MB)


def _problem(shelf: SnapshotRepository, file: Any) -> str:
    try:
        shelf.require_size(file)
        for _ in shelf.chunks(file):
            pass
    except Unusable as why:
        return str(why)
    return ""


def _plain(one: _ListedSnapshot) -> dict[str, Any]:
    return one.as_object()


def _row(one: _ListedSnapshot) -> tuple[Any, ...]:
    if one.manifest is None:
        return one.token, one.shelf.names.share, "", "", "", one.problem
    made = one.manifest
    return one.token, one.shelf.names.share, iso(made.created_ms), len(made.files), decimal(made.size), ""


def _ask(method: str, url: str, settings: Settings) -> dict[str, Any]:
    import httpx  # takes 0.1 s, and most of these verbs ask a store only

    try:
        answer = httpx.request(method, url, headers=settings.api_headers, timeout=ASK_S, **direct_options(url))
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise UnavailableError(f"the rehydrator at {url} does not answer ({error}); see its log") from None
    if answer.status_code == 401:
        raise UsageError(f"{url} requires its token: set CUTWATER_API_TOKEN as for 'cutwater up'")
    if not answer.is_success:
        kind = UnavailableError if answer.status_code >= 500 else UsageError
        raise kind(f"{url} answered {answer.status_code}: {answer.text[:500]}")
    found: dict[str, Any] = answer.json()
    return found


def register(root: typer.Typer) -> None:
    root.add_typer(app, name="snapshots")
