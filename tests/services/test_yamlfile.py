"""YAML files: whatever the bytes are, one error names the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.yamlfile import MAX_BYTES, read_mapping
from cutwater.core.errors import UsageError

BROKEN = {
    "empty": b"",
    "only a comment": b"# nothing\n",
    "a list": b"- a\n- b\n",
    "a word": b"flights",
    "two documents": b"a: 1\n---\nb: 2\n",
    "not YAML": b"a: [1, 2\nb: }",
    "a tab": b"a:\n\tb: 1",
    "binary": bytes(range(256)),
    "another encoding": "a: ü".encode("latin-1"),
    "a date that is none": b"a: 2013-99-99",
    "5,000 digits": b"a: " + b"1" * 5_000,
    "nested without end": b"[" * 5_000,
    "a tag that runs code": b"a: !!python/object/apply:os.getcwd []",
    "tags that do not fit": b"a: !!timestamp x",
    "an empty number": b"a: !!int ''",
    "a bool that is none": b"a: !!bool x",
    "a key that is a list": b"? [a]\n: b",
    "too large": b"#" * (MAX_BYTES + 1),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_named(tmp_path: Path, case: str) -> None:
    """UsageError, whatever PyYAML trips over."""
    path = tmp_path / "job.yaml"
    path.write_bytes(BROKEN[case])
    with pytest.raises(UsageError, match=r"job\.yaml: "):
        read_mapping(path)


@pytest.mark.parametrize("text", ["a: 1\na: 2\n", "a: {b: 1, c: 2, b: 3}\n", "a:\n- {b: 1, 'b': 2}\n"])
def test_a_key_that_stands_twice_is_refused(tmp_path: Path, text: str) -> None:
    """PyYAML would keep the last in silence, and a measure would be missing."""
    path = tmp_path / "job.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"the key '[ab]' stands twice.*line \d"):
        read_mapping(path)


def test_a_merge_may_be_overridden(tmp_path: Path) -> None:
    """YAML's merge key is not a repetition: the mapping's own value counts."""
    path = tmp_path / "job.yaml"
    path.write_text("base: &base {a: 1, b: 2}\njob: {<<: *base, b: 3}\n")
    assert read_mapping(path)["job"] == {"a": 1, "b": 3}


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Missing, or a folder."""
    with pytest.raises(UsageError, match=r"gone\.yaml: cannot be read: No such file"):
        read_mapping(tmp_path / "gone.yaml")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        read_mapping(tmp_path)


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_give_a_mapping_or_a_usage_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """No other type of error gets out."""
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(data)
    try:
        found = read_mapping(path)
    except UsageError:
        return
    assert isinstance(found, dict)
