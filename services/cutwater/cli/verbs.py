"""The verbs of the command line, and where each of them lives: a verb's module is imported once it is called.

All of them together take 0.8 to 0.9 s of CPU to import, the one that is called a third to a half of that.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
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
        "Check this machine, the brokers and a job's topics, and say what to do about what is wrong.",
    ),
    "plan": ("job.plan", "Print the topics, rights, disk and network that a job will add. Nothing is written."),
    "prepare": (
        "job.prepare",
        "Create a job's topics on your cluster: those that are missing, once those that exist have been checked.",
    ),
    "up": (
        "stack.up",
        "Start driver, commit-signal and rehydrator on this machine, and a broker unless you name your own.",
    ),
    "status": ("stack.up", "Show what runs, how far each part is, and the alerts that are on."),
    "down": ("stack.down", "End the stack that runs on the data folder."),
    "milestones": (
        "state.milestones",
        "List the newest milestones, or check that all are chained, plausible, and as their barriers say.",
    ),
    "prune": (
        "state.prune",
        "Delete the oldest milestones and barriers, as far as nobody needs them any more.",
    ),
    "verify": (
        "state.verify",
        "Compare, at one milestone, what the changelog, the view and the output hold, row by row.",
    ),
    "history": (
        "stack.history",
        "Show the recovery trail: each start's findings, decision and steps with their durations.",
    ),
    "regions": (
        "regions.regions",
        "Show the replicas in this region: newest arrival, its age and watermark, and how far the "
        "copies are behind.",
    ),
    "failover": (
        "regions.failover",
        "Go on here with the job of a region that is dead, from the newest milestone that has arrived.",
    ),
    "switchover": (
        "regions.failover",
        "Go on here with the job of a region that lives, and lose nothing: planned, or back after a failover.",
    ),
    "release": (
        "regions.failover",
        "Give the job up in this region, for another one that goes on: its driver and commit-signal are fenced.",
    ),
    "restore": ("state.restore", "Make a view at one milestone in a folder, from a snapshot and the changelog."),
    "export": (
        "state.export",
        "Write a view at one milestone as Parquet: key, window_start, window_end, one column per measure.",
    ),
    "rollback": (
        "generations.generation",
        "Go back to a milestone: a generation is started from it, and promoted with its first milestone.",
    ),
    "tail": (
        "state.tail",
        "Show milestones as they become whole, each with the rows that it changed, until Ctrl-C.",
    ),
    "get": ("state.get", "Show the windows of one key, and the milestone they belong to."),
    "produce": ("job.produce", "Produce events to the running job, checked against its schema."),
    "demo": (
        "demo.demo",
        "Replay the flights of 2013, and compare every served row with DuckDB. Exit 1 on any difference.",
    ),
    "demo-regions": (
        "demo.demo_regions",
        "Two regions on one machine: the first one's broker is killed with -9, and the second one goes on.",
    ),
    "snapshots": (
        "state.snapshots",
        "Snapshots of a job's views: list them, read them whole, delete old ones, take one now.",
    ),
    "forks": (
        "regions.forks",
        "After a failover: what contradicts in the region that was left, which line counts, what was lost.",
    ),
    "mirror": (
        "regions.mirror",
        "The mirror of another region: what is copied, pause it, let it go on, begin a copy anew.",
    ),
    "generation": (
        "generations.generation",
        "A generation is started from a milestone, catches up, and is promoted: other partitions, "
        "other code, a rollback.",
    ),
    "dead-letters": (
        "rejected.rejected_events",
        "Events that could not be used: list them, or produce them again.",
    ),
    "late": ("rejected.rejected_events", "Events that came after one of their windows had closed."),
    "config": ("job.config", "The settings: see what is in force before something is started."),
    "schemas": ("job.schemas", "Schemas: check their evolution, show those of a job, register one."),
}
"""By name: the module, and the first line of the verb's help (a test keeps them equal)."""


class LazyCommands(MutableMapping[str, Any]):
    """The root's commands by name; each is made from its module when it is asked for."""

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
    """The root: lists its verbs without importing them."""

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
    """The commands that a module registers, by name."""
    app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False)
    app.callback()(lambda: None)  # with one command alone typer would make no group of it
    import_module(f"cutwater.cli.{module}").register(app)
    return dict(typer.main.get_group(app).commands)
