"""`cutwater`: the command line. Verbs live in the files beside this one."""

from __future__ import annotations

from typing import Annotated

import typer

from cutwater.cli.verbs import LazyVerbs
from cutwater.core.errors import UnexpectedError

EXIT_CODES = (
    "Exit codes: 0 fine · 1 a check found differences, or an alert is on · 2 wrong input · "
    "3 the machine lacks something · "
    "4 a broker or service does not answer · 5 the protocol forbids it · 6 fenced by a newer owner · "
    "7 records that must be equal differ · 8 foreign rows have ended the generation · "
    "70 a fault of Cutwater, with its traceback."
)
UNEXPECTED = UnexpectedError.exit_code
PACKAGES = ("pyspark", "confluent-kafka", "rocksdict", "faust-streaming")
"""Whose versions decide what is possible: `--version` names those that are installed."""

app = typer.Typer(
    name="cutwater",
    cls=LazyVerbs,
    help="Consistent cuts of streaming state: run, watch and query a job.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _show_versions(asked: bool) -> None:
    if not asked:
        return
    from importlib.metadata import PackageNotFoundError, version  # a tenth of a second
    from platform import python_version

    typer.echo(f"cutwater {version('cutwater')}")
    typer.echo(f"Python {python_version()}")
    for package in PACKAGES:
        try:
            typer.echo(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    raise typer.Exit


@app.callback()
def _root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_versions, is_eager=True, help="Print versions, and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Entry point. What no verb foresees is a fault of ours, and no finding of a check."""
    try:
        app()
    except Exception:
        from traceback import print_exc

        print_exc()
        raise SystemExit(UNEXPECTED) from None


if __name__ == "__main__":
    main()
