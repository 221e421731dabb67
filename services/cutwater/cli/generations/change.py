"""What differs in a generation with a job file of its own, as a table and as JSON; and the job file itself."""

from __future__ import annotations

from typing import Any

from cutwater.adapters.topics.generation_jobs import definition_of
from cutwater.cli.report import iso, out, print_json, print_note
from cutwater.core.errors import UsageError
from cutwater.core.generations.candidates import Candidates
from cutwater.core.generations.job_change import PartChange
from cutwater.core.generations.measure_change import Fate, MeasureChange
from cutwater.core.protocol.generation import Generation
from cutwater.core.util.printable_text import printable_lines
from cutwater.core.util.text_tables import Column, table
from cutwater.operations.generations.redefinition import Change

_COLUMNS = (Column("what"), Column("in the generation"), Column("so"))


def change_json(change: Change) -> dict[str, Any]:
    found = change.found
    return {
        "possible": not found.obstacles,
        "complete_from": iso(change.complete_from_ms) if change.complete_from_ms else None,
        "measures": [{"name": one.name, **_measure_json(one)} for one in found.measures],
        "parts": [one._asdict() for one in found.parts],
        "obstacles": found.obstacles,
    }


def _measure_json(one: MeasureChange) -> dict[str, Any]:
    return {"fate": one.fate.value, "before": one.before or None, "reason": one.why or None}


def print_change(change: Change, another: bool) -> None:
    """Print each measure and each part of the job file that differs. `another`: it is not the parent's file."""
    from_x = iso(change.complete_from_ms) if change.complete_from_ms else ""
    rows = [(f"measure {one.name}", one.fate.value, _measure_text(one, from_x)) for one in change.found.measures]
    rows += [(one.part, f"{one.before} -> {one.after}", _part_text(one, from_x)) for one in change.found.parts]
    title = "the job file beside the parent's" if another else "what the generation takes over"
    out.table(table(title, _COLUMNS, rows))
    if another and not change.found.changes_rows and not change.found.obstacles:
        print_note(
            "its rows are the parent's: a restart with the new job file does the same, without a generation"
        )


def _measure_text(one: MeasureChange, from_x: str) -> str:
    if one.fate is Fate.PARTLY and from_x:
        return f"complete from window {from_x} on; {one.why}"
    if one.fate is Fate.IN_STATE:
        return "in no row: the source must tell the events before the milestone"
    if one.fate in (Fate.ADDED, Fate.REPLACED):
        complete = f"complete from window {from_x} on" if from_x else "starts empty"
        return f"{complete}; {one.why}" if one.why else complete
    if one.fate is Fate.RENAMED:
        return f"was {one.before}"
    return one.why


def _part_text(one: PartChange, from_x: str) -> str:
    if not one.possible:
        return f"not possible: {one.effect}"
    return f"complete from window {from_x} on: {one.effect}" if one.from_x and from_x else one.effect


def print_job_file(known: Candidates, generation: Generation, as_json: bool) -> None:
    """Print a generation's job file. Raises UsageError if no claim carries it."""
    candidate = known.by_id.get(generation)
    told = [one for one in known.job_files.values() if one.generation == generation]
    found = known.job_file(generation, definition_of(candidate)) if candidate else (told[0] if told else None)
    if found is None:
        known.require(generation)
        raise UsageError(f"no claim carries the job file of {generation}: it has that of its parent")
    if as_json:
        files = [one._asdict() for one in found.files]
        complete = iso(found.complete_from_ms) if found.complete_from_ms else None
        print_json({"generation": str(generation), "complete_from": complete, "files": files})
        return
    if found.complete_from_ms:
        print_note(f"what is new is complete from window {iso(found.complete_from_ms)} on")
    print(printable_lines(found.files[0].text.rstrip("\n")))
