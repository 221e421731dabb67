"""YAML files as mappings: whatever is wrong with the file becomes one UsageError that names it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from cutwater.core.errors import UsageError

MAX_BYTES = 1_000_000

# PyYAML's constructors let these through, from values such as `2013-99-99`, `!!bool x` or 5,000 digits.
_CONSTRUCTOR_ERRORS = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    OverflowError,
    RecursionError,
)


class _Loader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice: YAML forbids it, and PyYAML would keep the last in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key '{key.value}' stands twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_mapping(path: Path) -> dict[Any, Any]:
    """The one mapping of a YAML file; raises UsageError naming the file when there is none."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"{path}: larger than {MAX_BYTES:,} bytes: not a file that a person wrote for Cutwater")
    try:
        document = _Loader(data.decode("utf-8")).get_single_data()
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    except _CONSTRUCTOR_ERRORS as error:
        raise UsageError(f"{path}: not YAML that can be read: {error!r:.300}") from None
    if not isinstance(document, dict):
        raise UsageError(f"{path}: a job file is a YAML mapping; see deploy/jobs/flights.yaml for an example")
    return document
