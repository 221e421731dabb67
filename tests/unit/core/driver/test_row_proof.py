"""The proof of rows: a pure repeat passes, and every other record on the changelog is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.driver.row_proof import (
    ChangelogRow,
    Suspect,
    Written,
    breach,
    describe,
    foreign_rows,
    overgrown,
    strays,
    suspects,
)
from cutwater.core.errors import DivergenceError
from cutwater.core.protocol.changelog_rows import Writer
from support.protocol_samples import GENERATION, GENERATIONS, OTHER

ME = Writer(GENERATION, 2, 7)
EARLIER = ME._replace(attempt=1)


def log(*records: tuple[str, str, Writer | None]) -> list[ChangelogRow]:
    """Rows of partition 0 from offset 100 on, of (key, value, writer)."""
    return [
        ChangelogRow(0, 100 + number, key.encode(), value.encode(), writer)
        for number, (key, value, writer) in enumerate(records)
    ]


OWN = (("a", "1", ME), ("b", "2", ME))


def test_partitions_that_hold_just_the_rows_written_are_not_looked_at() -> None:
    """The proof costs nothing where offsets and counts agree, in partitions that are new too."""
    assert suspects({0: 10, 1: 5}, {0: 12, 1: 5, 2: 3}, {0: 2, 2: 3}) == []


def test_partitions_with_other_counts_are_suspect() -> None:
    """More than was written, and less than was written."""
    found = suspects({0: 10, 1: 5, 2: 8}, {2: 8, 1: 5, 0: 13}, {0: 2, 1: 1})
    assert found == [Suspect(0, 10, 13), Suspect(1, 5, 5)]


def test_a_partition_that_shrank_is_a_divergence() -> None:
    """Less than stood there before: the topic was truncated or recreated, whatever was written since."""
    with pytest.raises(DivergenceError, match="partition 2"):
        suspects({0: 10, 2: 8}, {0: 10, 2: 7}, {})


@pytest.mark.parametrize(
    "records",
    [
        OWN,
        (("a", "1", EARLIER), ("b", "2", EARLIER), *OWN),
        (("b", "2", EARLIER), ("a", "1", EARLIER), *OWN),
        (("a", "old", EARLIER), *OWN),
        (*OWN, ("a", "1", EARLIER)),
        (("a", "1", ME), *OWN),
        (("a", "half", ME), *OWN),
    ],
    ids=[
        "only own",
        "replay",
        "replay in another order",
        "overwritten",
        "zombie, same value",
        "retry",
        "retry, older",
    ],
)
def test_a_pure_repeat_passes(records: tuple[tuple[str, str, Writer]]) -> None:
    """The same epoch, a key of ours, and our value or an older place in the log: our record is what counts."""
    assert foreign_rows(log(*records), ME, 2) == []


@pytest.mark.parametrize(
    "intruder",
    [
        ("a", "old", EARLIER),
        ("a", "1", None),
        ("a", "1", ME._replace(generation=OTHER)),
        ("a", "1", ME._replace(attempt=3)),
        ("a", "1", ME._replace(epoch=6)),
        ("a", "1", ME._replace(epoch=8)),
        ("c", "3", EARLIER),
    ],
    ids=[
        "a zombie's old value",
        "an unknown writer",
        "another generation",
        "a future attempt",
        "an older epoch",
        "a newer epoch",
        "a key not written by us",
    ],
)
def test_what_is_no_repeat_is_foreign(intruder: tuple[str, str, Writer | None]) -> None:
    """Behind our rows each of these would be served as state; the record itself is returned."""
    records = log(*OWN, intruder)
    assert foreign_rows(records, ME, 2) == [records[-1]]


def test_a_foreign_record_before_ours_is_foreign_too() -> None:
    """Older than our value, but of another writer: it cannot be explained, so it is named."""
    records = log(("a", "1", None), *OWN)
    assert foreign_rows(records, ME, 2) == [records[0]]


def test_a_record_without_key_or_value_is_foreign() -> None:
    """No key: nothing to supersede. A tombstone behind our value would delete it."""
    keyless = ChangelogRow(0, 102, None, b"1", ME)
    tombstone = ChangelogRow(0, 103, b"a", None, EARLIER)
    assert foreign_rows([*log(*OWN), keyless, tombstone], ME, 2) == [keyless, tombstone]


@pytest.mark.parametrize("records", [(), OWN[:1], (("a", "1", EARLIER), OWN[1])])
def test_lost_rows_end_the_generation(records: tuple[tuple[str, str, Writer]]) -> None:
    """Acknowledged rows that do not stand there are lost, even where an earlier attempt's equal ones do."""
    with pytest.raises(DivergenceError, match="of epoch 7 attempt 2, but 2 were acknowledged"):
        foreign_rows(log(*records), ME, 2)


def test_more_own_keys_than_were_acknowledged_end_the_generation() -> None:
    """Rows under our name that we did not count: somebody else writes as us."""
    with pytest.raises(DivergenceError, match="holds 2 keys"):
        foreign_rows(log(*OWN), ME, 1)


WRITERS = st.none() | st.builds(Writer, st.sampled_from([GENERATION, OTHER]), st.integers(1, 3), st.integers(6, 8))
RECORDS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("12"), WRITERS), max_size=10)


@given(RECORDS)
def test_what_passes_is_shown_as_we_wrote_it(records: list[tuple[str, str, Writer | None]]) -> None:
    """However the log looks: if nothing is foreign, its newest values are this attempt's own rows."""
    rows = log(*records)
    own = {row.key: row.value for row in rows if row.writer == ME}
    if not foreign_rows(rows, ME, len(own)):
        assert {row.key: row.value for row in rows} == own


def test_at_a_start_only_the_epoch_to_be_run_may_stand_there() -> None:
    """What a killed attempt left of that epoch is written again; anything else cannot be superseded."""
    left = log(("a", "1", EARLIER), ("b", "2", EARLIER))
    assert strays(left, GENERATION, 7, 2) == []
    for number, stray in enumerate((None, ME, EARLIER._replace(epoch=6), EARLIER._replace(generation=OTHER))):
        found = strays([*left, *log(("c", "3", stray))], GENERATION, 7, 2)
        assert [row.writer for row in found] == [stray], number


def test_the_message_names_the_first_few() -> None:
    """A person sees topic, partition, offset and writer of some, and how many more there are."""
    text = describe(log(*[("a", "1", EARLIER)] * 6, ("b", "2", None)), "changelog", limit=2)
    assert text == (
        "changelog/0@100 by g1-local-00000000 attempt 1 epoch 7, "
        "changelog/0@101 by g1-local-00000000 attempt 1 epoch 7 and 5 more"
    )
    assert describe(log(("b", "2", None)), "changelog") == "changelog/0@100 by an unknown writer"
    many = describe(log(*[("a", "1", EARLIER)] * 7), "changelog")
    assert (many.count("changelog/0@"), many.endswith(" and 2 more")) == (5, True), "the rest is counted"


def test_the_message_says_more_only_where_there_are_more() -> None:
    records = log(("a", "1", ME), ("b", "2", EARLIER))
    assert describe(records, "rows", limit=2) == (
        f"rows/0@100 by {GENERATION} attempt 2 epoch 7, rows/0@101 by {GENERATION} attempt 1 epoch 7"
    )
    assert describe(records, "rows", limit=1).endswith(" and 1 more")


@pytest.mark.parametrize(
    ("header", "may", "live"),
    [
        (ME.header, True, True),
        (EARLIER.header, True, True),
        (ME._replace(epoch=6, attempt=9).header, True, True),
        (ME._replace(attempt=3).header, False, False),
        (ME._replace(epoch=8, attempt=1).header, False, False),
        (ME._replace(generation=OTHER).header, True, False),
        (ME._replace(generation=OTHER, epoch=99).header, True, False),
        (b"nonsense", True, False),
        (None, True, False),
    ],
    ids=[
        "own",
        "its repeat",
        "before",
        "a later attempt",
        "a later epoch",
        "elsewhere",
        "elsewhere, later",
        "?",
        "none",
    ],
)
def test_who_may_stand_below_a_cut(header: bytes | None, may: bool, live: bool) -> None:
    """Nobody who came later, be it a tombstone; and of another generation no row. `may`: a tombstone."""
    assert (overgrown(header, ME) == "") is may
    assert (breach(header, ME) == "") is live


def test_a_breach_says_who_it_was() -> None:
    assert breach(None, ME) == "was written without the header 'writer'"
    assert breach(b"g9-x/1/0", ME) == "was written by g9-x/1/0, not by this generation"
    assert breach(ME._replace(epoch=8).header, ME) == (
        "was written by epoch 8, attempt 2, but is below the cut of epoch 7, attempt 2: "
        "the log has lost its end and was then written again"
    )


def test_partitions_that_are_doubted_are_looked_at() -> None:
    """Although just what was added stands there; and none that is not."""
    assert suspects({0: 10, 1: 5}, {0: 12, 1: 5}, {0: 2}, doubted=[0]) == [Suspect(0, 10, 12)]
    assert suspects({}, {0: 2, 3: 1}, {0: 2}) == [Suspect(3, 0, 1)]


def test_of_what_was_written_the_digest_is_that_of_all_partitions() -> None:
    """Signed, as Spark has it."""
    assert Written({0: 1, 1: 2}, {0: -1, 1: 5}).digest == -1 ^ 5
    assert Written({}, {}).digest == 0


def test_rows_of_a_snapshot_are_nobodys() -> None:
    """No attempt has the number 0: so they are no milestone's own, and never later than one."""
    one = Writer.of_snapshot(GENERATION, 7)
    assert one == Writer(GENERATION, 0, 7)
    assert breach(one.header, ME) == ""


def test_the_header_of_a_row_is_what_it_is() -> None:
    """The bytes are a format: rows that were written yesterday must be told apart tomorrow."""
    me = Writer(GENERATION, 2, 12)
    assert me.header == b"g1-local-00000000/2/12"
    assert Writer.of_header(me.header) == me


@given(st.builds(Writer, GENERATIONS, st.integers(1, 2**31), st.integers(0, 2**63 - 1)), st.binary(max_size=40))
def test_a_header_names_its_writer_or_nobody(writer: Writer, other: bytes) -> None:
    assert Writer.of_header(writer.header) == writer
    for damaged in (None, b"", other, writer.header[:-1] + b"/", writer.header + b"/1", b"\xff" + writer.header):
        found = Writer.of_header(damaged)
        assert found is None or found.header == damaged
