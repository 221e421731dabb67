"""`cutwater`: the command line. The verbs are in the folders beside this file."""

from __future__ import annotations

from typing import Annotated

import typer

from cutwater.cli.verbs import LazyVerbs
from cutwater.core.errors import UnexpectedError

EXIT_CODES = (
    "Exit codes: 0 success · 1 a check found differences, or an alert is active · 2 invalid input · "
    "3 the machine lacks something · "
    "4 a broker or service does not answer · 5 the protocol forbids it · 6 fenced by a newer owner · "
    "7 records that must be equal differ · 8 foreign rows have ended the generation · "
    "70 a bug in Cutwater, with its traceback."
)
UNEXPECTED = UnexpectedError.exit_code
PACKAGES = ("pyspark", "confluent-kafka", "rocksdict", "faust-streaming")
"""Packages whose versions `--version` prints if they are installed."""

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
    from importlib.metadata import PackageNotFoundError, version  # the import takes 0.1 s
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
        bool, typer.Option("--version", callback=_show_versions, is_eager=True, help="Print versions and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line. An exception that no verb handles exits with 70, since 1 means that a check failed."""
    try:
        app()
    except Exception:
        from traceback import print_exc

        print_exc()
        raise SystemExit(UNEXPECTED) from None


if __name__ == "__main__":
    main()
