"""The cache folder: downloads, archives of classes, answers of Spark."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_dir

CACHE_VARIABLE = "CUTWATER_CACHE_DIR"


def cache_dir() -> Path:
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named).expanduser() if named else Path(user_cache_dir("cutwater"))
