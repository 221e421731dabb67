"""Checks for optional packages: services and client programs are installed without them."""

from __future__ import annotations

from importlib.util import find_spec

from cutwater.core.errors import MachineError


def require(extra: str, *packages: str) -> None:
    """Raise MachineError, with the install command, if one of the packages is missing."""
    if missing := [name for name in packages if find_spec(name) is None]:
        raise MachineError(f"{' and '.join(missing)} cannot be imported here: pip install 'cutwater[{extra}]'")
