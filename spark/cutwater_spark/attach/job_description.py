"""Job file and schema of a user's own query, derived from its DataFrame."""

from __future__ import annotations

import json
import re
from pathlib import Path

from pyspark.sql import DataFrame

from cutwater.adapters.job_files.loader import load_job
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Attached
from cutwater_spark.query.columns import require_attachable, value_types

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def describe(
    frame: DataFrame,
    job_file: str | Path,
    *,
    job: str,
    key: str,
    size: str,
    lateness: str,
    retention: str,
    slide: str | None = None,
    window: str = "window",
) -> None:
    """Write `job_file` and, beside it, `<job>_state.avsc`; check them and keep them with your program.

    Durations are written as in a job file: `10m`, `1h`. `size`, `slide` and `lateness` repeat what the query gives
    to window() and withWatermark(). Raise UsageError if the frame cannot be attached or a file exists.
    """
    query = Attached(key, window)
    require_attachable(frame, query)
    types = value_types(frame, query)
    if odd := [name for name in types if not _NAME.fullmatch(name)]:
        raise UsageError(
            f"column '{odd[0]}' is no Avro name. Give it a name of letters, digits and _ with alias()"
        )
    path = Path(job_file)
    schema = path.with_name(f"{job.replace('-', '_')}_state.avsc")
    for one in (path, schema):
        if one.exists():
            raise UsageError(f"{one} exists already. Delete it, or name another file")
    fields = [{"name": name, "type": ["null", of.avro], "default": None} for name, of in types.items()]
    record = {"type": "record", "name": "Row", "fields": fields}
    kind = f"kind: sliding, size: {size}, slide: {slide}" if slide else f"kind: tumbling, size: {size}"
    schema.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    path.write_text(
        f"job: {job}\nattached: {{key: {key}, window: {window}, schema: {schema.name}}}\nwindow: {{{kind}}}\n"
        f"lateness: {lateness}\nretention: {retention}\n",
        encoding="utf-8",
    )
    load_job(path)
