"""What two registries are to each other, number by number."""

from __future__ import annotations

from cutwater.core.events.registry_ids import Entry, SubjectComparison, compare_subject


def entry(version: int, number: int, meaning: str, subject: str = "shop-value") -> Entry:
    return Entry(subject, version, number, "AVRO", "{}", (), meaning)


V1, V2 = entry(1, 10, "aa"), entry(2, 20, "bb")


def test_what_is_here_under_its_number_is_left_alone() -> None:
    """Under whatever version: events name a number."""
    assert compare_subject([V1, V2], [V2, entry(7, 10, "aa")], {}) == SubjectComparison()
    assert compare_subject([V1], [V1, V2], {}) == SubjectComparison(), "more versions here are no harm"


def test_what_is_not_here_is_missing_where_its_place_is_free() -> None:
    found = compare_subject([V1, V2], [V1], {20: "bb"})
    assert found == SubjectComparison(missing=(V2,)), "the registry has the schema already, under another subject"
    assert found.unreadable == ["shop-value version 2, number 20 (bb) is not known here"]


def test_a_version_that_is_another_number_here_is_never_overwritten() -> None:
    found = compare_subject([V2], [entry(2, 30, "bb")], {})
    assert found.missing == ()
    assert found.conflicts == ()
    assert found.taken == (
        "shop-value version 2, number 20 (bb) is not known here: its place is taken by "
        "shop-value version 2, number 30 (bb)",
    )


def test_a_number_that_is_another_schema_here_is_a_conflict() -> None:
    """In the subject, or under another one."""
    for here, meant, place in (([entry(3, 20, "cc")], {}, "version 3"), ([], {20: "cc"}, "of another subject")):
        found = compare_subject([V1, V2], here, meant)
        assert found.missing == (V1,)
        assert found.conflicts == (
            f"shop-value version 2, number 20 (bb): number 20 is another schema here, cc, {place}",
        )
        assert found.unreadable[0] == found.conflicts[0]
