"""docs/CLI.md: every verb with its options, examples and exit codes, from the typer app."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer.main

from cutwater.cli.main import app
from cutwater.core import errors

_OTHER_CODES = {
    0: ("", "Fine."),
    1: ("", "A check found differences. `--help` of `demo`, `doctor` and other verbs explains which."),
    130: (
        "",
        "Interrupted by Ctrl-C or SIGTERM (`demo`); also by SIGHUP (`diff`, `blame`, `replay`, "
        "`rollback --diff`, and `canary status` while it compares).",
    ),
}


def cli_page(generated: str) -> str:
    """Return the page. `generated`: the text on how it is generated."""
    head = (
        "# Command line\n\nThe command is `cutwater`. Every verb takes `--help`. Settings come from the "
        f"environment: see [SETTINGS.md](SETTINGS.md). {generated}"
    )
    parts = [head, _exit_codes()]
    for name, verb in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        parts += _verbs(f"cutwater {name}", verb)
    return "\n".join(parts)


def _exit_codes() -> str:
    kinds = {
        kind.exit_code: (f"`{name}`", (kind.__doc__ or "").strip())
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.CutwaterError) and "exit_code" in vars(kind)
        if kind.exit_code > 1
    }
    known = sorted((_OTHER_CODES | kinds).items())
    rows = "\n".join(f"| {code} | {name} | {text} |" for code, (name, text) in known)
    return (
        "## Exit codes\n\nThey are the same for every verb and every service. Python code raises the error of "
        "that name.\n\n"
        f"| code | error | meaning |\n|---|---|---|\n{rows}\n"
    )


def _verbs(path: str, verb: Any) -> Iterator[str]:
    inner = getattr(verb, "commands", None)
    yield _section(path, verb, leaf=inner is None)
    for name, one in (inner or {}).items():
        yield from _verbs(f"{path} {name}", one)


def _section(path: str, verb: Any, leaf: bool) -> str:
    text, _, examples = (verb.help or "").partition("Examples:")
    parts = [f"{'#' * len(path.split())} {path}\n", *_paragraphs(text)]
    if leaf:
        parts += [_usage(path, verb), *_table(verb)]
    lines = "\n".join(" ".join(one.split()) for one in examples.split("·"))
    return "\n".join([*parts, f"```sh\n{lines.strip()}\n```\n"] if lines.strip() and leaf else parts)


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.strip().split("\n\n"):
        if paragraph.strip():
            yield f"{_plain(' '.join(paragraph.split()))}\n"


def _plain(text: str) -> str:
    return text.replace("<", "\\<").replace("*", "\\*").replace("|", "\\|")


def _usage(path: str, verb: Any) -> str:
    arguments = [_argument(one) for one in verb.params if one.param_type_name == "argument"]
    return f"```text\n{' '.join([path, *arguments])} [OPTIONS]\n```\n"


def _argument(one: Any) -> str:
    name = (one.metavar or one.name).upper() + ("..." if one.nargs != 1 else "")
    return name if one.required else f"[{name}]"


def _table(verb: Any) -> Iterator[str]:
    rows = [
        f"| {_named(one)} | {_default(one)} | {_plain(one.help or '')}{_range(one)} |"
        for one in verb.params
        if one.name != "help" and not one.hidden
    ]
    if rows:
        yield "| argument or option | default | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def _named(one: Any) -> str:
    if one.param_type_name == "argument":
        return f"`{_argument(one).strip('[]')}`"
    return ", ".join(f"`{name}`" for name in (*one.opts, *one.secondary_opts))


def _default(one: Any) -> str:
    if one.required:
        return "required"
    if getattr(one, "is_flag", False):
        return "on" if one.default else "off"
    return "" if one.default in {None, ()} else f"`{one.default}`"


def _range(one: Any) -> str:
    if one.min is None and one.max is None:
        return ""
    low, high = (None if bound is None else f"{bound:,.10g}" for bound in (one.min, one.max))
    return f" At least {low}." if high is None else f" At most {high}." if low is None else f" {low} to {high}."
