"""Inspects this machine for `cutwater doctor`, without changing it."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import psutil

from cutwater.core.checks.machine import MB, Machine
from cutwater.core.errors import CutwaterError
from cutwater.local import jars
from cutwater.local.java import Java, chosen_java, has_vector_module
from cutwater.local.machine.disk_space import require_room

_HEAP = re.compile(r"([0-9]{1,9})([kmgt]?)b?", re.IGNORECASE)
_UNITS = {"k": 1024, "m": MB, "g": 1024 * MB, "t": 1024 * 1024 * MB, "": 1}


def inspect_machine(data_dir: Path, embedded_broker: bool, checkpoint: str | None = None) -> Machine:
    """Inspect Java, memory, disk and jars. `checkpoint`: the driver's checkpoint location (for the jars)."""
    java, advice = _java()
    problem, free = _disk(data_dir)
    sets = jars.connector_sets(checkpoint) + (("kafka",) if embedded_broker else ())
    return Machine(
        python=(sys.version_info.major, sys.version_info.minor),
        java=f"{java.path}, from {java.origin}" if java else None,
        java_version=java.version if java else None,
        java_advice=advice,
        vector_module=has_vector_module(java.path) if java else False,
        memory_free_bytes=psutil.virtual_memory().available,
        data_dir=str(data_dir),
        data_dir_problem=problem,
        disk_free_bytes=free,
        jars_present=all(jars.present(one) for one in sets),
    )


def heap_bytes(setting: str) -> int:
    """Parse a memory size in Spark's format ('1g', '512m'); 1 GB, Spark's default, for an invalid text."""
    found = _HEAP.fullmatch(setting.strip())
    return int(found[1]) * _UNITS[found[2].lower()] if found else 1024 * MB


def _java() -> tuple[Java | None, str]:
    try:
        return chosen_java(), ""
    except CutwaterError as error:
        return None, str(error)


def _disk(data_dir: Path) -> tuple[str, int]:
    """Return (why the folder cannot be used, free bytes). Uses the nearest existing folder and creates none."""
    there = data_dir.resolve()
    while not there.exists() and there != there.parent:
        there = there.parent
    try:
        require_room(there, "Cutwater", free_bytes_min=0)
        return "", shutil.disk_usage(there).free
    except (CutwaterError, OSError) as error:
        return str(error), 0
