"""Checks for what only some installations have: optional packages, and the checkout with its examples."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from cutwater.core.errors import MachineError


def require(extra: str, *packages: str) -> None:
    """Raise MachineError, with the install command, if one of the packages is missing."""
    if missing := [name for name in packages if find_spec(name) is None]:
        raise MachineError(f"{' and '.join(missing)} cannot be imported here: pip install 'cutwater[{extra}]'")


def require_checkout(example: str) -> None:
    """Make `examples.<example>` importable. Raise MachineError if Cutwater does not run from a checkout."""
    root = Path(__file__).resolve().parents[4]
    if not (root / "examples" / example).is_dir():
        raise MachineError(
            f"examples/{example} is not part of this installation: clone the repository and run its 'make' there"
        )
    if str(root) not in sys.path:
        sys.path.append(str(root))
