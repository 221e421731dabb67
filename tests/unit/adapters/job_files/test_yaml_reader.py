"""YAML files: whatever the bytes are, one error names the file."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.job_files.document.yaml_reader import MAX_BYTES, read_document
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
    "nested without end": b"[" * 5_000,
    "a tag that runs code": b"a: !!python/object/apply:os.getcwd []",
    "a key that is a list": b"? [a]\n: b",
    "too large": b"#" * (MAX_BYTES + 1),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_named(tmp_path: Path, case: str) -> None:
    """UsageError, whatever PyYAML trips over."""
    path = tmp_path / "job.yaml"
    path.write_bytes(BROKEN[case])
    with pytest.raises(UsageError, match=r"job\.yaml:(\d+:)? "):
        read_document(path)


def test_a_file_that_is_too_large_is_not_parsed(tmp_path: Path) -> None:
    """One byte more than the bound is refused as that; at the bound the file is read."""
    path = tmp_path / "job.yaml"
    path.write_bytes(b"a: 1 #" + b"#" * (MAX_BYTES - 6))
    assert read_document(path).values == {"a": 1}
    path.write_bytes(b"a: 1 #" + b"#" * (MAX_BYTES - 5))
    with pytest.raises(UsageError, match=r"job\.yaml: larger than 1,000,000 bytes"):
        read_document(path)


FLAWED = [
    ("a: 1\na: 2\n", [(2, "a")], "the key 'a' is repeated: line 1 has it already"),
    ("a: {b: 1, c: 2, b: 3}\n", [(1, "a.b")], "the key 'b' is repeated: line 1 has it already"),
    ("a:\n- {b: 1, 'b': 2}\n", [(2, "a.0.b")], "the key 'b' is repeated"),
    ("a: 1\nb: {c: 1}\na: 2\nb:\n  d: 1\n  d: 2\n", [(3, "a"), (4, "b"), (6, "b.d")], "is repeated"),
    ("a: 2013-99-99\n", [(1, "a")], "YAML cannot read it as timestamp (given: '2013-99-99')"),
    ("a:\n  b: " + "1" * 5_000, [(2, "a.b")], "YAML cannot read it as int (given: '1111"),
    ("a: !!timestamp x", [(1, "a")], "YAML cannot read it as timestamp (given: 'x')"),
    ("a: !!int ''", [(1, "a")], "YAML cannot read it as int (given: '')"),
    ("a: [1, !!bool x]", [(1, "a.1")], "YAML cannot read it as bool"),
    ("2013-99-99: 1", [(1, "2013-99-99")], "YAML cannot read it as timestamp"),
]


@pytest.mark.parametrize(("text", "places", "said"), FLAWED, ids=range(len(FLAWED)))
def test_what_can_be_read_all_the_same_is_noted(
    tmp_path: Path, text: str, places: list[tuple[int, str]], said: str
) -> None:
    """Every key that stands twice, of which PyYAML would keep the last in silence; scalars of the wrong kind."""
    path = tmp_path / "job.yaml"
    path.write_text(text)
    flaws = read_document(path).flaws
    assert sorted((one.mark.line, ".".join(one.place)) for one in flaws) == places
    assert all(said in one.text for one in flaws)


SYNTAX = [
    ("a:\n\tb: 1", 2, 1, "a tab: indent with spaces"),
    ("a: 1\n  \tb: 1\n", 2, 3, "a tab: indent with spaces"),
    ("a: 1\nb: 'x\nc: 2\n", 2, 4, "the quote that begins here is not closed"),
    ('a: "x\nb: 1\nc: "y"\n', 1, 4, "the quote that begins here is not closed"),
    ("a: 1\nsize:1h\nb: 2\n", 2, 1, "write a space after the colon"),
    ("w:\n  size:1h\n  kind: x\n", 2, 1, "write a space after the colon"),
    ("a: 1\nb\nc: 2\n", 2, 1, "write 'name: value'"),
    ("a: b: c\n", 1, 5, "put a value that has a colon and a space in quotes"),
    ("w:\n  a: 1\n   b: 2\n", 3, 5, "indent the line as the others of its mapping"),
    ("w:\n   a: 1\n  b: 2\n", 3, 3, "indent the line as the others of its mapping"),
    ("a: 1\nw: {a: 1\nb: 2\n", 3, 2, "the flow mapping begins on line 2, column 4: it is not closed there"),
    ("a: *x\n", 1, 4, "put a value that begins with * in quotes"),
    ("a: @x\n", 1, 4, "put a value that begins with this character in quotes"),
    ("a: !x y\n", 1, 4, "put a value that begins with ! in quotes"),
    ('a: "x\\q"\n', 1, 7, "in double quotes a backslash begins an escape"),
    ("a: 1\n---\nb: 2\n", 2, 1, "a job file is one document"),
    ("a: 1\nb: \x01\n", 2, 4, "remove this character"),
    ("a: ü\nb: ü".encode() + b"\xfc", 2, 5, "save the file as UTF-8"),
]


@pytest.mark.parametrize(("text", "line", "column", "cause"), SYNTAX, ids=range(len(SYNTAX)))
def test_an_error_of_the_syntax_has_line_column_and_cause(
    tmp_path: Path, text: str | bytes, line: int, column: int, cause: str
) -> None:
    """What is probably to be changed, on the line where it is to be changed."""
    path = tmp_path / "job.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UsageError) as caught:
        read_document(path)
    told = str(caught.value)
    assert told.startswith(f"{path}:{line}: not YAML: ")
    assert f"(column {column}); {cause}" in told


@pytest.mark.parametrize(
    "text", ["url: http://ann:secret@h: 1\n", "url: 'http://ann:secret@h\n", "url: !secret x\n"]
)
def test_an_error_of_the_syntax_does_not_quote_the_file(tmp_path: Path, text: str) -> None:
    """A registry's URL may hold a password, although it must not."""
    path = tmp_path / "job.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_document(path)
    assert "ann" not in str(caught.value)


def test_a_merge_may_be_overridden(tmp_path: Path) -> None:
    """YAML's merge key is not a repetition: the mapping's own value counts, however deep the merged one stands."""
    path = tmp_path / "job.yaml"
    path.write_text("base: &base {a: 1, b: 2}\njob: {<<: *base, b: 3}\n")
    assert read_document(path).values["job"] == {"a": 1, "b": 3}
    path.write_text("x:\n  one: &one {a: 1}\n  y: {z: &two {<<: *one, a: 2}}\njob: {<<: *two}\n")
    document = read_document(path)
    assert (document.flaws, document.values["job"]) == ([], {"a": 2})
    assert (document.mark(("job", "a")).line, document.mark(("job", "b")).line) == (3, 4)


def test_the_line_of_a_field_is_that_of_its_name(tmp_path: Path) -> None:
    """A field that is missing has the line of the mapping around it; names may be other values to YAML."""
    path = tmp_path / "job.yaml"
    path.write_text("# one\na:\n  b:\n    1\n  on: &x {c: 1}\n  0x10: *x\n")
    document = read_document(path)
    lines = {place: document.mark(place).line for place in [(), ("a",), ("a", "b"), ("a", "d"), ("e",)]}
    assert lines == {(): 2, ("a",): 2, ("a", "b"): 3, ("a", "d"): 2, ("e",): 2}
    assert [document.mark(("a", name, "c")).line for name in ("True", "16")] == [5, 5]
    assert document.mark(("a", "16")).line == 6


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Missing, or a folder."""
    with pytest.raises(UsageError, match=r"gone\.yaml: cannot be read: No such file"):
        read_document(tmp_path / "gone.yaml")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        read_document(tmp_path)


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_give_a_mapping_or_a_usage_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """No other type of error gets out."""
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(data)
    try:
        found = read_document(path).values
    except UsageError:
        return
    assert isinstance(found, dict)


def test_of_a_file_that_is_too_large_no_more_is_read_than_shows_it(tmp_path: Path) -> None:
    """Whatever is named instead of a job file by mistake may be larger than the memory."""
    path = tmp_path / "job.yaml"
    with path.open("wb") as file:
        file.truncate(64 * MAX_BYTES)
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match="larger than"):
            read_document(path)
        assert tracemalloc.get_traced_memory()[1] < 8 * MAX_BYTES
    finally:
        tracemalloc.stop()
