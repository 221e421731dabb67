"""The verbs of the command line and their modules. A module is imported when its verb is called.

Importing all modules takes 0.8 to 0.9 s of CPU, importing one a third to a half of that.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

VERBS: dict[str, tuple[str, str]] = {
    "init": (
        "job.init",
        "Draft a job file from a topic: format, schema, key, event time, window, lateness and measures.",
    ),
    "doctor": (
        "job.doctor",
        "Check this machine, the brokers and a job's topics, and print how to fix each problem.",
    ),
    "plan": ("job.plan", "Print the topics, ACLs, disk and network that a job will add. Nothing is written."),
    "size": (
        "job.size",
        "Size a job for a load: partitions, cores, memory, disks, snapshots, a restore, and a month's traffic.",
    ),
    "calibrate": (
        "job.calibrate",
        "Measure what a driver and what is beside it take on this machine, and write a file for 'cutwater size'.",
    ),
    "policy": ("job.policy", "A team's policy for jobs: check job files against it."),
    "prepare": (
        "job.prepare",
        "Create a job's missing topics on your cluster, after checking the existing ones.",
    ),
    "up": (
        "stack.up",
        "Start driver, commit-signal and rehydrator on this machine, and a broker unless you name your own.",
    ),
    "status": ("stack.status", "Show what runs, the progress of each part, and the active alerts."),
    "console": (
        "stack.console",
        "Serve the console: pages about the jobs that run on the data folder, until Ctrl-C.",
    ),
    "down": ("stack.down", "Stop the stack that runs on the data folder, with all its jobs."),
    "milestones": (
        "state.milestones",
        "List the newest milestones, or check all: hash chain, plausibility, agreement with their barriers.",
    ),
    "prune": (
        "state.prune",
        "Delete the oldest milestones and barriers that nothing needs any more.",
    ),
    "verify": (
        "state.verify",
        "Compare the changelog, the view and the output at one milestone, row by row.",
    ),
    "history": (
        "stack.history",
        "Show the recovery trail: each start's findings, decision and steps with their durations.",
    ),
    "cadence": (
        "stack.cadence",
        "Show how large and frequent epochs and snapshots are by the job's objectives, and the newest decisions.",
    ),
    "audit": (
        "stack.audit",
        "Show the audit log: who did what to the job, on which object, when, and what came of it.",
    ),
    "incident": (
        "stack.incident",
        "Gather logs, status, alerts, history, milestones, metrics and settings in one file, without secrets.",
    ),
    "regions": (
        "regions.regions",
        "Show the replicas in this region: newest arrival, its age and watermark, and the lag of the copies.",
    ),
    "failover": (
        "regions.failover",
        "Continue the job of a dead region here, from the newest milestone that has arrived.",
    ),
    "switchover": (
        "regions.failover",
        "Continue the job of a live region here without loss: planned, or back after a failover.",
    ),
    "release": (
        "regions.failover",
        "Give the job up in this region so that another one can continue it. Fences driver and commit-signal.",
    ),
    "restore": ("state.restore", "Build a view at one milestone in a folder, from a snapshot and the changelog."),
    "export": (
        "state.export",
        "Write a view at one milestone as Parquet: key, window_start, window_end, one column per measure.",
    ),
    "rollback": (
        "generations.rollback",
        "Go back to a milestone: claim a generation from it, which is promoted with its first milestone.",
    ),
    "diff": (
        "past.diff",
        "Show the windows that differ between two milestones, with each measure before and after.",
    ),
    "blame": (
        "past.blame",
        "Show the milestones that changed one row, with before and after, writer and source offsets.",
    ),
    "replay": (
        "past.replay",
        "Count the events between two milestones once more in a sandbox, and compare every row with the job's.",
    ),
    "lineage": (
        "state.lineage",
        "Show which milestones of the upstream job a milestone contains, if the source is another job's output.",
    ),
    "tail": (
        "state.tail",
        "Show each milestone when it is complete, with the rows that it changed, until Ctrl-C.",
    ),
    "get": (
        "state.get",
        "Show the windows of one key, or of all keys with some leading columns, and the milestone they belong to.",
    ),
    "distinct": (
        "state.distinct",
        "Count the different values of several rows: of any set, in every set, in no set.",
    ),
    "hot-keys": (
        "state.hot_keys",
        "Show the keys that are read most, beside those with the most events and the most bytes.",
    ),
    "skew": (
        "skew.skew",
        "Show where the load is by shard and key and what to do about it, and spread hot keys.",
    ),
    "produce": ("job.produce", "Produce events to the running job, checked against its schema."),
    "load": (
        "job.load",
        "Produce events of the running job's schema at a rate, with frequent keys, spikes, late or bad events.",
    ),
    "chaos": (
        "stack.chaos",
        "Make faults on the running stack by a plan, and check lag, recovery and every row.",
    ),
    "demo": (
        "demo.demo",
        "Replay the flights of 2013, and compare every served row with DuckDB. Exit 1 on any difference.",
    ),
    "demo-regions": (
        "demo.demo_regions",
        "Run two regions on one machine: the first region's broker is killed, and the second one continues.",
    ),
    "snapshots": (
        "state.snapshots",
        "Snapshots of a job's views: list, verify, prune or create them.",
    ),
    "forks": (
        "regions.forks",
        "After a failover: list conflicting milestones of the other region, decide which count, count the loss.",
    ),
    "mirror": (
        "regions.mirror",
        "The mirror of another region: show what is copied, pause or resume it, start a copy again.",
    ),
    "generation": (
        "generations.generation",
        "Generations: start one from a milestone, promote it when it has caught up, list, abort, prune.",
    ),
    "canary": (
        "generations.canary",
        "Canary: run a candidate beside the promoted generation, and compare the two milestone by milestone.",
    ),
    "dead-letters": (
        "rejected.rejected_events",
        "Events that could not be used: list them, or produce them again.",
    ),
    "late": (
        "rejected.late_events",
        "Events that arrived after their window had closed: list them, or let a generation count them.",
    ),
    "config": ("job.config", "Settings: show the values in force, and where each comes from."),
    "schemas": ("job.schemas", "Schemas: check their evolution, show those of a job, register one, fetch one."),
}
"""Module and first help line by verb (a test compares the line with the verb's help)."""


class LazyCommands(MutableMapping[str, Any]):
    """The root's commands by name, each created from its module on first access."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made |= _commands(VERBS[name][0])
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"{name} stays a verb")

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


class LazyVerbs(TyperGroup):
    """The root command, which lists its verbs without importing them."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "commands": {}})
        self.commands = LazyCommands()
        self._listing = False

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if self._listing and cmd_name in VERBS:
            return TyperCommand(cmd_name, help=VERBS[cmd_name][1])
        return self.commands.get(cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._listing = False


def _commands(module: str) -> dict[str, Any]:
    app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False)
    app.callback()(lambda: None)  # typer makes no group of a single command
    with _no_collections():
        import_module(f"cutwater.cli.{module}").register(app)
    return dict(typer.main.get_group(app).commands)


@contextmanager
def _no_collections() -> Iterator[None]:
    """Imports make many objects and little garbage: searching it takes a seventh of a verb's start."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
