"""The packages that only the extra `local` brings: services and client programs are installed without them."""

from __future__ import annotations

from importlib.util import find_spec

from cutwater.core.errors import MachineError


def require_extra() -> None:
    """Raises MachineError where Spark, or what fetches jars, is not installed."""
    missing = [name for name in ("pyspark", "jgo") if find_spec(name) is None]
    if missing:
        raise MachineError(
            f"a stack of its own needs {' and '.join(missing)}, not installed here: pip install 'cutwater[local]'"
        )
