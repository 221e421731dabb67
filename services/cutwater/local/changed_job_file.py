"""A copy of a job file with some fields changed, for a job that counts the same events beside the running one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml


def changed_job_file(path: Path, folder: Path, changes: Mapping[str, Any]) -> Path:
    """Write the copy into a new folder, with links to what is beside the job file. `changes`: the fields' new
    values; None leaves a field out."""
    folder.mkdir(parents=True)
    for one in path.resolve().parent.iterdir():
        if one.name != path.name:
            (folder / one.name).symlink_to(one)
    written = {**yaml.safe_load(path.read_text(encoding="utf-8")), **changes}
    kept = {name: value for name, value in written.items() if value is not None}
    made = folder / path.name
    made.write_text(yaml.safe_dump(kept, sort_keys=False), encoding="utf-8")
    return made
