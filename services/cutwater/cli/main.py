"""`cutwater`: the command line. Verbs live in the files beside this one."""

from __future__ import annotations

import typer

from cutwater.cli import (
    config,
    demo,
    demo_regions,
    doctor,
    down,
    export,
    failover,
    forks,
    generation,
    history,
    init,
    lists,
    mirror,
    plan,
    prepare,
    produce,
    regions,
    restore,
    schemas,
    snapshots,
    stack,
    state,
    stream,
    tail,
    verify,
)

EXIT_CODES = (
    "Exit codes: 0 fine · 1 a check found differences, or an alert is on · 2 wrong input · "
    "3 the machine lacks something · "
    "4 a broker or service does not answer · 5 the protocol forbids it · 6 fenced by a newer owner · "
    "7 records that must be equal differ · 8 foreign rows have ended the generation."
)

app = typer.Typer(
    name="cutwater",
    help="Consistent cuts of streaming state: run, watch and query a job.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for module in (
    init,
    doctor,
    plan,
    prepare,
    stack,
    down,
    stream,
    verify,
    snapshots,
    history,
    regions,
    failover,
    forks,
    mirror,
    restore,
    export,
    generation,
    tail,
    state,
    lists,
    produce,
    demo,
    demo_regions,
    config,
):
    module.register(app)
schemas.register_verbs(app)


def main() -> None:
    app()


if __name__ == "__main__":
    main()
