"""Manifests, names, retention and garbage of snapshots, with plain values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.errors import UsageError
from cutwater.core.protocol.generation import Generation
from cutwater.core.state.snapshot_manifest import (
    DAY_MS,
    FORMAT,
    HOUR_MS,
    File,
    Manifest,
    Names,
    Policy,
    SnapshotAge,
    Stored,
    Unusable,
    deletable,
    object_name,
    pruning,
    retained_sequences,
    sequence_of,
    share_name,
    shares_of,
    upload_ms_max,
)
from cutwater.core.util.timestamps import iso

GENERATION = Generation(1, "local")
NAMES = Names("sales", str(GENERATION), "all")


def sha(number: int) -> str:
    return f"{number:064x}"


def manifest(sequence: int, created_ms: int = 0, objects: tuple[str, ...] = ()) -> Manifest:
    files = tuple(File(f"{at:06}.sst", 10, one[:64], one) for at, one in enumerate(objects))
    return Manifest("sales", GENERATION, None, sequence, b"\x01m", 7, HOUR_MS, "aa", files, created_ms)


ONE = manifest(3, 5, (object_name(sha(1), "0" * 8), object_name(sha(2), "1" * 8)))


# --- the manifest


@given(
    st.integers(1, 10**18),
    st.binary(max_size=50),
    st.one_of(st.none(), st.frozensets(st.integers(0, 99), min_size=1, max_size=9)),
    st.lists(st.integers(0, 1000), unique=True, max_size=9),
    st.one_of(st.none(), st.integers(-HOUR_MS, HOUR_MS)),
)
def test_a_manifest_is_read_as_it_was_written(
    sequence: int,
    record: bytes,
    partitions: frozenset[int] | None,
    files: list[int],
    lower_ms: int | None,
) -> None:
    one = Manifest(
        job="sales",
        generation=GENERATION,
        partitions=partitions,
        sequence=sequence,
        record=record,
        offset=3,
        segment_ms=HOUR_MS,
        schema="aa",
        files=tuple(File(f"{at}.sst", at, sha(at), object_name(sha(at), "0" * 8)) for at in files),
        created_ms=9,
        lower_ms=lower_ms,
    )
    assert Manifest.decode(one.encode()) == one
    assert (one.size, len(one.objects)) == (sum(files), len(files))


def test_a_manifest_that_says_nothing_of_evictions_is_read() -> None:
    """Of the version before, whose checksum is over what it says."""
    plain = json.loads(ONE.encode())
    del plain["lower_ms"], plain["checksum"]
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    old = {**plain, "checksum": hashlib.sha256(text.encode()).hexdigest()}
    assert Manifest.decode(json.dumps(old).encode()) == ONE


def test_any_changed_byte_is_noticed() -> None:
    """Each byte of a manifest, changed, makes it unusable: none of them says anything else instead."""
    data = ONE.encode()
    for at in range(len(data)):
        hurt = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        try:
            assert Manifest.decode(hurt) == ONE  # white space between the fields
        except Unusable:
            continue


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b"null", b'{"format": []}', ONE.encode()[:-30]])
def test_what_is_no_manifest_is_unusable(data: bytes) -> None:
    with pytest.raises(Unusable):
        Manifest.decode(data)


def test_a_newer_format_is_named() -> None:
    newer = json.dumps({**json.loads(ONE.encode()), "format": FORMAT + 1}).encode()
    with pytest.raises(Unusable, match=f"format {FORMAT + 1}, but this version reads format {FORMAT}"):
        Manifest.decode(newer)


@pytest.mark.parametrize(
    "file",
    [
        File("../../etc/x", 1, sha(1), object_name(sha(1), "0" * 8)),
        File("a/b.sst", 1, sha(1), object_name(sha(1), "0" * 8)),
        File("..", 1, sha(1), object_name(sha(1), "0" * 8)),
        File("1.sst", -1, sha(1), object_name(sha(1), "0" * 8)),
        File("1.sst", 1, sha(1), object_name(sha(2), "0" * 8)),
        File("1.sst", 1, sha(1), "../" + object_name(sha(1), "0" * 8)),
        File("1.sst", 1, "x", "x"),
    ],
)
def test_names_from_a_store_cannot_leave_their_folder(file: File) -> None:
    """A manifest with a right checksum and a wrong name is refused all the same."""
    with pytest.raises(Unusable, match="has an invalid value"):
        Manifest.decode(Manifest(**{**vars(ONE), "files": (file,)}).encode())


def test_a_file_named_twice_is_refused() -> None:
    with pytest.raises(Unusable, match="twice"):
        Manifest.decode(Manifest(**{**vars(ONE), "files": (ONE.files[0], ONE.files[0])}).encode())


# --- what a stranger writes, with a right checksum

_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)
_PATHS = st.sampled_from(["..", "/etc/passwd", "a/../b", "C:\\x", ".", "", "a\x00b", "٣.sst", "x" * 10_000])
_FIELDS: list[tuple[Any, ...]] = [(name,) for name in json.loads(ONE.encode())]
_PLACES = [*_FIELDS, *(("files", 0, name) for name in File._fields), ("files", 1), ("files", 0, "more")]


def forged(plain: dict[str, Any]) -> bytes:
    """With the checksum of what it says, as anybody can write it."""
    plain = {name: one for name, one in plain.items() if name != "checksum"}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return json.dumps({**plain, "checksum": hashlib.sha256(text.encode()).hexdigest()}).encode()


def read(data: bytes) -> None:
    """Unusable in a line that can be shown, or a manifest that holds only what all else can work with."""
    one, told = None, ""
    try:
        one = Manifest.decode(data)
    except Unusable as why:
        told = str(why)
    assert len(told) < 700
    if one is None:
        return
    assert Manifest.decode(one.encode()) == one
    assert iso(one.created_ms)
    assert one.lower_ms is None or iso(one.lower_ms)
    numbers = (one.sequence, one.offset, one.segment_ms, *(file.size for file in one.files))
    assert all(type(number) is int and 0 <= number < 1 << 63 for number in numbers)
    assert all("/" not in file.name and not file.name.startswith(".") for file in one.files)


@given(st.sampled_from(_PLACES), _ANYTHING | _PATHS | st.integers(-(10**30), 10**30))
def test_any_value_at_any_place(place: tuple[Any, ...], value: Any) -> None:
    plain = json.loads(ONE.encode())
    *way, last = place
    within = plain
    for step in way:
        within = within[step]
    within[last] = value
    read(forged(plain))


@given(st.binary(max_size=300), st.integers(0, 500), st.integers(0, 500))
def test_any_bytes(inserted: bytes, at: int, until: int) -> None:
    data = ONE.encode()
    read(inserted)
    read(data[:at] + inserted + data[until:])


@pytest.mark.parametrize("name", ["sequence", "offset", "segment_ms", "created_ms", "lower_ms", "size", "format"])
@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "1.5", "true", "1" * 4_000, "1" * 5_000, "-1e30"])
def test_numbers_that_are_none(name: str, number: str) -> None:
    """Infinite, not a number, a fraction, thousands of digits: with the checksum that Python finds for it."""
    plain = json.loads(ONE.encode())
    marked = -987_654_321
    place = plain["files"][0] if name == "size" else plain
    place[name] = marked
    del plain["checksum"]
    as_written = {"1e999": "Infinity", "-1e999": "-Infinity", "-1e30": "-1e+30"}.get(number, number)
    text = json.dumps(plain, sort_keys=True, separators=(",", ":")).replace(str(marked), as_written)
    plain["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    if (name, number) == ("format", "true"):
        return  # it is 1 in Python
    with pytest.raises(Unusable, match=r"invalid value|not JSON|of format"):
        Manifest.decode(json.dumps(plain).replace(str(marked), number).encode())


@pytest.mark.parametrize("depth", [500, 950, 5_000, 200_000])
@pytest.mark.parametrize("form", ["%s", '{"format": 1, "files": %s}', '{"format": %s}', '{"format": 1, "x": %s}'])
def test_nesting_without_end(depth: int, form: str) -> None:
    """What ended the rehydrator at each start: deeper than Python goes, in reading or in writing it again."""
    for nested in ("[" * depth, "[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth):
        with pytest.raises(Unusable):
            Manifest.decode((form % nested).encode())


# --- names


def test_names_of_objects() -> None:
    """What docs/SNAPSHOTS.md shows; manifests sort by name as by sequence."""
    assert NAMES.manifest(42) == "sales/g1-local-00000000/all/manifests/0000000000000000042.json"
    assert NAMES.retired_manifest(42) == "sales/g1-local-00000000/all/retired/0000000000000000042.json"
    assert NAMES.file("a-b") == "sales/g1-local-00000000/all/files/a-b"
    assert sequence_of(NAMES.manifest(42)) == 42
    assert [sequence_of(one) for one in ("x/42.json", "x/y", NAMES.file("a-b"), NAMES.manifest(1) + "#1")] == [
        None
    ] * 4


def test_names_of_shares() -> None:
    """Short ones say their partitions; two sets of very many have different ones, and they stay short."""
    assert share_name(None) == "all"
    assert share_name(frozenset({2, 0})) == "p0-2"
    assert share_name(None, "eu") == "all.in-eu"
    assert share_name(frozenset({2, 0}), "eu") == "p0-2.in-eu"
    many, others = frozenset(range(0, 900, 2)), frozenset(range(1, 901, 2))
    assert share_name(many) != share_name(others)
    assert max(len(share_name(many)), len(share_name(frozenset(range(30))))) <= 64


def test_shares_are_found_by_their_objects() -> None:
    other = Names("sales", "g2-eu-0badcafe", "p0-2")
    names = [NAMES.manifest(1), NAMES.file("a"), other.file("b"), "sales/x", "sales2/g/all/files/c"]
    assert shares_of("sales", names) == [NAMES, other]


def test_a_share_of_another_job_is_not_found() -> None:
    assert shares_of("sale", [NAMES.manifest(1)]) == []


def test_a_bad_generation_is_unusable() -> None:
    assert issubclass(UsageError, Exception)
    plain = json.loads(ONE.encode())
    with pytest.raises(Unusable):
        Manifest.decode(json.dumps({**plain, "generation": "x"}).encode())


# --- retention

POLICIES = st.builds(Policy, st.integers(1, 5), st.integers(0, 30), st.integers(0, 10))
TIMES = st.integers(0, 40 * DAY_MS)


@st.composite
def histories(draw: st.DrawFn) -> list[SnapshotAge]:
    """Snapshots as they are made: later ones have higher sequences."""
    moments = sorted(draw(st.lists(TIMES, max_size=40)))
    return [SnapshotAge(number + 1, at) for number, at in enumerate(moments)]


@given(histories(), POLICIES, TIMES)
def test_the_newest_and_the_last_ones_are_always_kept(
    history: list[SnapshotAge], policy: Policy, later_ms: int
) -> None:
    now_ms = max([0, *(one.created_ms for one in history)]) + later_ms
    stay = retained_sequences(history, policy, now_ms)
    assert stay >= {one.sequence for one in history[-policy.last :]}
    assert stay <= {one.sequence for one in history}


@given(histories(), POLICIES)
def test_every_hour_and_day_of_the_policy_has_one(history: list[SnapshotAge], policy: Policy) -> None:
    """Where there was one; and no more than the policy says."""
    now_ms = max([0, *(one.created_ms for one in history)])
    stay = retained_sequences(history, policy, now_ms)
    made = {one.sequence: one.created_ms for one in history}
    for length_ms, count in ((HOUR_MS, policy.hours), (DAY_MS, policy.days)):
        within = range(now_ms // length_ms - count + 1, now_ms // length_ms + 1)
        wanted = {at // length_ms for at in made.values()} & set(within)
        assert wanted <= {made[sequence] // length_ms for sequence in stay}
    assert len(stay) <= policy.last + policy.hours + policy.days


@given(histories(), POLICIES, TIMES)
def test_what_is_kept_is_kept_again(history: list[SnapshotAge], policy: Policy, later_ms: int) -> None:
    """Pruning twice is pruning once."""
    now_ms = max([0, *(one.created_ms for one in history)]) + later_ms
    stay = retained_sequences(history, policy, now_ms)
    assert retained_sequences([one for one in history if one.sequence in stay], policy, now_ms) == stay


def test_a_policy_by_example() -> None:
    """One every 20 minutes for 3 days: the last two, three hours' newest, and two days' newest."""
    history = [SnapshotAge(number, number * 20 * 60_000) for number in range(1, 3 * 72)]
    stay = retained_sequences(history, Policy(2, 3, 2), history[-1].created_ms)
    assert stay == {215, 214, 212, 209, 143}
    assert retained_sequences(history, Policy(1, 0, 0), history[-1].created_ms) == {215}
    assert retained_sequences([], Policy(), 0) == frozenset()


def test_without_settings_a_day_of_hours_and_a_week_of_days_stay() -> None:
    """And the last three, of one an hour for two weeks."""
    history = [SnapshotAge(number, number * HOUR_MS) for number in range(1, 14 * 24)]
    now_ms = history[-1].created_ms
    usual = Policy()
    assert len(retained_sequences(history, usual._replace(days=0), now_ms)) == 24
    assert len(retained_sequences(history, usual._replace(hours=0, last=1), now_ms)) == 7
    assert len(retained_sequences(history, usual._replace(hours=0, days=0), now_ms)) == 3


# --- garbage

GRACE_MS = 1_000
OBJECTS = [object_name(sha(number), f"{number:08x}") for number in range(12)]
SETS = st.frozensets(st.sampled_from(OBJECTS))
FILES = st.lists(
    st.builds(lambda name, at: Stored(NAMES.file(name), 1, at), st.sampled_from(OBJECTS), st.integers(0, 5_000))
)


@given(FILES, SETS, st.integers(0, 9_000))
def test_nothing_named_and_nothing_young_is_deleted(
    files: list[Stored], named: frozenset[str], now_ms: int
) -> None:
    gone = deletable(files, named, now_ms, GRACE_MS)
    for one in files:
        old = now_ms - one.modified_ms >= GRACE_MS
        assert (one in gone) == (old and one.name.rpartition("/")[2] not in named)


@st.composite
def shelves(draw: st.DrawFn) -> tuple[list[Manifest], list[tuple[Stored, Manifest]]]:
    """Manifests that are kept, and retired ones."""
    live = [manifest(number, draw(TIMES), tuple(draw(SETS))) for number in draw(st.sets(st.integers(1, 9)))]
    retired = [
        (
            Stored(NAMES.retired_manifest(number), 1, draw(st.integers(0, 5_000))),
            manifest(number, 0, tuple(draw(SETS))),
        )
        for number in draw(st.sets(st.integers(1, 9)))
    ]
    return live, retired


@given(shelves(), FILES, POLICIES, st.integers(0, 9_000))
def test_nothing_that_a_kept_manifest_names_is_deleted(
    found: tuple[list[Manifest], list[tuple[Stored, Manifest]]], files: list[Stored], policy: Policy, now_ms: int
) -> None:
    """Nor what one names that is retired now, or was within the grace period."""
    live, retired = found
    plan = pruning(live, retired, files, policy, now_ms, GRACE_MS)
    gone = {one.name.rpartition("/")[2] for one in plan.delete}
    young = [one for at, one in retired if now_ms - at.modified_ms < GRACE_MS]
    assert all(not gone & one.objects for one in (*live, *young))
    assert not set(plan.forget) & {one.sequence for one in (*live, *young)}
    if live:
        assert max(one.sequence for one in live) not in plan.retire
    needed = frozenset(one.sequence for one in live[::2])
    assert not needed & set(pruning(live, retired, files, policy, now_ms, GRACE_MS, needed).retire)


# --- uploads beside pruning

HOLES = {
    "names whatever lies there": "an upload that names files of no kept manifest",
    "no grace": "garbage is deleted as soon as it is seen",
    "writes a retired number anew": "an upload of a milestone whose retired manifest still stands",
    "does not look again": "a pruner that stood still deletes what it saw once",
    "clocks far apart": "by more than half of the grace period",
}


class Store:
    """An object store, uploads and prunings on it, one step at a time at a moment that only grows.

    Several owners may upload the same milestone, and a pruner's clock is off by `skew_ms`. A step is one request,
    but for a look right before a deletion or a creation, which a store with conditions makes one with it.
    """

    def __init__(self, hole: str = "", skew_ms: int = 0) -> None:
        assert not hole or hole in HOLES
        self.now_ms = 0
        self.files: dict[str, int] = {}
        self.live: dict[int, Manifest] = {}
        self.retired: dict[int, tuple[int, Manifest]] = {}
        self.running: dict[str, Iterator[None]] = {}
        self.stolen = False
        """Was a manifest deleted that nobody had decided to delete?"""
        self._object = self._milestone = 0
        self._hole = hole
        self._skew_ms = 2 * skew_ms if hole == "clocks far apart" else skew_ms
        self._grace_ms = 0 if hole == "no grace" else GRACE_MS

    def whole_run(self, actor: str) -> None:
        """From its beginning to its end, or from where it stands."""
        self.step(actor)
        while actor in self.running:
            self.step(actor)

    def step(self, actor: str) -> None:
        """One step of an actor, which begins again when it has ended."""
        running = self.running.get(actor) or (self._upload(actor) if actor[0] == "u" else self._prune(actor))
        self.running[actor] = running
        if next(running, "ended") == "ended":
            del self.running[actor]

    def _upload(self, actor: str) -> Iterator[None]:
        """A view whose tables come from what is there, and new ones: as views.shelf does it.

        The first owner has each milestone; the others may be behind, and at one that was uploaded before.
        """
        self._milestone += actor == "u1"
        began_ms, sequence = self.now_ms, max(1, self._milestone - 2 * (actor == "u3"))
        names = [one for two in self.live.values() for one in two.objects]
        if self._hole == "names whatever lies there":
            names = list(self.files)
        reused = sorted(names)[(sequence + 1) % 2 :: 2]
        yield
        self._object += 1
        new = object_name(sha(self._object), f"{self._object:08x}")
        self.files[new] = self.now_ms
        yield
        chosen = (*dict.fromkeys([*reused, new]),)
        if not all(one in self.files for one in chosen):
            return
        yield
        taken = sequence in self.live
        if self._hole != "writes a retired number anew":
            taken |= sequence in self.retired
        if not taken and self.now_ms - began_ms <= upload_ms_max(GRACE_MS):
            self.live[sequence] = manifest(sequence, self.now_ms, chosen)

    def _prune(self, actor: str) -> Iterator[None]:
        now_ms = self.now_ms + (self._skew_ms if actor == "p1" else -self._skew_ms)
        live = list(self.live.values())
        yield
        retired = [(Stored(NAMES.retired_manifest(at), 1, ms), one) for at, (ms, one) in self.retired.items()]
        yield
        files = [Stored(NAMES.file(one), 1, at) for one, at in self.files.items()]
        plan = pruning(live, retired, files, Policy(1, 0, 0), now_ms, self._grace_ms)
        for one in (two for two in live if two.sequence in plan.retire):
            yield
            if not self._stands(self.live.get(one.sequence), one):
                continue
            self.retired[one.sequence] = self.now_ms, one
            yield
            if self._stands(self.live.get(one.sequence), one):
                self.stolen |= self.live.pop(one.sequence, one) != one
        for stored in plan.delete:
            yield
            self.files.pop(stored.name.rpartition("/")[2], None)
        for at, one in ((at, two) for at, two in retired if two.sequence in plan.forget):
            yield
            found = self.retired.get(one.sequence)
            if found and self._stands(found, (at.modified_ms, one)):
                del self.retired[one.sequence]

    def _stands(self, found: object, planned: object) -> bool:
        """Is it still what was seen when the plan was made?"""
        return self._hole == "does not look again" or found == planned

    @property
    def whole(self) -> bool:
        return not self.stolen and all(one in self.files for two in self.live.values() for one in two.objects)


ACTORS = ["u1", "u2", "u3", "p1", "p2"]
LATER_MS = [0, 1, 100, 499, 501, 1_000, 3_000]
SKEW_MS = GRACE_MS // 2 - 1
STEPS = st.lists(st.tuples(st.sampled_from(ACTORS), st.sampled_from(LATER_MS)), max_size=150)


@given(STEPS, st.integers(-SKEW_MS, SKEW_MS))
def test_no_manifest_loses_a_file_however_uploads_and_prunings_meet(
    steps: list[tuple[str, int]], skew_ms: int
) -> None:
    """Uploads of equal and of different milestones and two prunings, each stopping for any time at any step."""
    store = Store(skew_ms=skew_ms)
    for actor, later_ms in steps:
        store.now_ms += later_ms
        store.step(actor)
        assert store.whole


SCENES = ("writes a retired number anew", "does not look again")
"""Holes that chance finds seldom: each needs one to stand still in one place, for long."""


@pytest.mark.parametrize("hole", ["", *(one for one in HOLES if one not in SCENES)])
def test_without_its_rules_a_manifest_loses_a_file(hole: str) -> None:
    """What each rule is for: without it a history goes wrong, with all of them none of the same does."""

    def lost(seed: int) -> bool:
        luck, store = Random(seed), Store(hole, SKEW_MS)
        for _ in range(250):
            store.now_ms += luck.choice(LATER_MS)
            store.step(luck.choice(ACTORS))
            if not store.whole:
                return True
        return False

    assert any(lost(seed) for seed in range(1_000)) == bool(hole), HOLES.get(hole)


@pytest.mark.parametrize("hole", ["", "does not look again"])
def test_a_pruner_that_stood_still_deletes_nothing_that_was_written_anew(hole: str) -> None:
    """It had moved the manifest of 1 to the retired ones; others finished that, and an owner wrote 1 again."""
    store = Store(hole)
    for _ in range(3):
        store.whole_run("u1")
    while 1 not in store.retired:
        store.step("p2")
    store.whole_run("p1")
    store.now_ms += GRACE_MS
    store.whole_run("p1")
    assert not {1, 2} & {*store.live, *store.retired}
    store.whole_run("u3")
    assert 1 in store.live
    store.whole_run("p2")
    assert store.whole == (not hole)
    assert (1 in store.live) == (not hole)


@pytest.mark.parametrize("hole", ["", "writes a retired number anew"])
def test_a_retired_manifest_protects_its_files_until_it_is_forgotten(hole: str) -> None:
    """An upload names a file of 1, which is retired meanwhile; 1 written anew would be retired in its place."""
    store = Store(hole)
    store.whole_run("u1")
    store.now_ms += 3 * GRACE_MS
    store.whole_run("u1")
    for _ in range(3):
        store.step("u1")  # milestone 3: it names a file of 1, and has looked that it is there
    for actor in ("p1", "u3", "p1", "p1"):
        store.whole_run(actor)
    store.whole_run("u1")
    assert store.whole == (not hole)
