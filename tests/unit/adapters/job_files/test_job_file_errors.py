"""One reading of a job file tells every mistake in it, with its line and what was probably meant."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutwater.adapters.job_files.errors import MISTAKES_MAX
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job

ROOT = Path(__file__).parents[4]
FLIGHTS = (ROOT / "deploy/jobs/flights.yaml").read_text(encoding="utf-8")
ORDERS = (ROOT / "examples/attach/orders.yaml").read_text(encoding="utf-8")
Told = list[tuple[int | None, str]]
Read = Callable[[str], Told]


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Read:
    """Loads a job file of this text; what it tells, as line and the text behind it. Nothing: it is a job."""
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "orders_state.avsc").write_bytes((ROOT / "examples/attach/orders_state.avsc").read_bytes())
    path = folder / "job.yaml"

    def load(text: str) -> Told:
        path.write_text(text, encoding="utf-8")
        try:
            assert isinstance(load_job(path), Job)
        except UsageError as error:
            return [told_in(line, path) for line in str(error).split("\n")]
        return []

    return load


def told_in(line: str, path: Path) -> tuple[int | None, str]:
    found = re.fullmatch(rf"{re.escape(str(path))}(?::([0-9]+))?: (.*)", line)
    assert found, line
    return int(found[1]) if found[1] else None, found[2]


def changed(*pairs: tuple[str, str], text: str = FLIGHTS) -> str:
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def test_both_stages_are_told_at_once_by_line(read: Read) -> None:
    """Fields that are unknown, missing, out of range; what does not fit the schema; what does not fit together."""
    text = changed(
        ("source:", "sorce:"),
        ("  topic: flights.events\n", ""),
        ("key: airport", "key: airprt"),
        ("event_time: scheduled_at", "event_time: carrier"),
        ("size: 1h", "size: 1 hour"),
        ("retention: 500d", "retention: 1h"),
        ("shards: 1024", "shards: 1000"),
        ("max_events_per_epoch: 20000", "max-events-per-epoch: 0"),
        ("measure: avg, field: delay_minutes", "measure: averge, field: delay_minute"),
        ("  miles: {measure: sum, field: distance_miles}", "  Movements: {measure: sum, field: flight}"),
    )
    told = read(text + "  MOVEMENTS: {measure: count}\nretry: 3\n")
    begins = [
        (3, "source.topic: is required; the topic with the events"),
        (3, "sorce: is not a field of a job file; check the spelling; did you mean 'source'?"),
        (5, "source.key: the schema has no field 'airprt'; it has: airport, kind, "),
        (
            6,
            "source.event_time: field 'carrier' is string; allowed types: timestamp-micros, timestamp-millis; did",
        ),
        (
            9,
            "window.size: '1 hour' is not a duration: write a whole number and one of ms, s, m, h, d, as in 90s",
        ),
        (11, "retention: must be at least the lateness"),
        (12, "shards: shards is 1000: it must be a power of two from 1 to 65536"),
        (
            14,
            "max-events-per-epoch: is not a field of a job file; check the spelling; did you mean '",
        ),
        (14, "max_events_per_epoch: Input should be greater than or equal to 1 (given: 0)"),
        (22, "measures.mean_delay.field: the schema has no field 'delay_minute'; it has: airport, "),
        (22, "measures.mean_delay.measure: 'averge' is no measure; allowed: count, sum, min, "),
        (26, "measures.Movements: measure 'Movements': sum of field 'flight', which is string; allowed types"),
        (
            27,
            "measures: the columns movements would exist twice; rename a measure: 'MOVEMENTS' (",
        ),
        (28, "retry: is not a field of a job file; check the spelling; allowed: job, source, "),
    ]
    assert [
        (line, begin)
        for (line, begin) in begins
        if not any(one == line and text.startswith(begin) for one, text in told)
    ] == []
    assert [line for line, _ in told] == [line for line, _ in begins]
    meant = {re.search(r"did you mean '(.*)'\?", text)[1] for _, text in told if "did you mean" in text}  # type: ignore[index]
    assert meant == {"source", "airport", "scheduled_at", "1h", "max_events_per_epoch", "delay_minutes", "avg"}


def test_mistakes_of_an_attached_file_are_told_at_once(read: Read) -> None:
    """The same for a user's own query: fields, windows, and every column that cannot be kept."""
    assert read(ORDERS) == []
    text = changed(
        ("attached: {key: region, window: window,", "attached: {key: orders, windw: orders,"),
        ("size: 10m", "size: 10m, slide: 1m"),
        ("lateness: 1h", "lateness: 1 hour"),
        ("partitions: 2", "partitions: 2000\nmeasures: {}"),
        text=ORDERS,
    )
    assert [(line, text.split(": ")[0]) for line, text in read(text)] == [
        (3, "attached.window"),
        (3, "attached.windw"),
        (3, "attached.schema"),
        (4, "window.slide"),
        (5, "lateness"),
        (7, "partitions"),
        (8, "measures"),
    ]
    ((_, told),) = read(changed(("attached:", "atached:"), text=ORDERS))
    assert told.endswith("did you mean 'attached'?")


def test_every_column_of_an_attached_schema_is_told(tmp_path: Path) -> None:
    """Types that cannot be kept and names that are there already, all of them."""
    types = {"a": "bytes", "b": {"type": "array", "items": "int"}, "Key": "long", "region": "long", "c": "long"}
    fields = [{"name": name, "type": one} for name, one in types.items()]
    schema = {"type": "record", "name": "Row", "fields": fields}
    (tmp_path / "orders_state.avsc").write_text(json.dumps(schema))
    (tmp_path / "orders.yaml").write_text(ORDERS)
    with pytest.raises(UsageError) as caught:
        load_job(tmp_path / "orders.yaml")
    found = str(caught.value).split("\n")
    assert len(found) == 4
    for said in (
        "column 'a' is bytes",
        "column 'b' is array",
        "columns key would exist twice",
        "region is part of a row's key",
    ):
        assert [one for one in found if f"orders.yaml:3: attached.schema: {said}" in one or said in one], said


@pytest.mark.parametrize(
    ("old", "new", "place", "meant"),
    [
        ("job: flights", "job: My_Flights", "job", "my-flights"),
        ("window:", "Window:", "Window", "window"),
        ("kind: tumbling", "kind: Tumbling", "window.kind", "tumbling"),
        ("  event_time:", "  event-time:", "source.event-time", "event_time"),
        ("size: 1h", "size: 90sec", "window.size", "90s"),
        ("shards: 1024", "max_bytes: 20GiB", "max_bytes", ""),
        ("shards: 1024", "max_bytes: 20 gb", "max_bytes", "20GB"),
        ("key: airport", "key: Airport", "source.key", "airport"),
        ("key: airport", "key: port", "source.key", ""),
        ("schema: flight_event.avsc", "schema: flights.avsc", "source.schema", ""),
        ("{measure: avg,", "{measure: mean,", "measures.mean_delay.measure", "avg"),
        ("{measure: avg,", "{measure: AVG,", "measures.mean_delay.measure", "avg"),
        ("{measure: avg,", "{measure: median,", "measures.mean_delay.measure", ""),
        ("{measure: avg,", "{mesure: avg,", "measures.mean_delay.mesure", "measure"),
        ("  mean_delay:", "  mean-delay:", "measures.mean-delay", "mean_delay"),
        ("{measure: avg,", "{kind: avg, measure: avg,", "measures.mean_delay.kind", ""),
    ],
)
def test_what_was_probably_meant(read: Read, old: str, new: str, place: str, meant: str) -> None:
    """One line, with the near word or with none: a wrong guess is worse than the list of what is allowed."""
    ((_, told),) = read(changed((old, new)))
    assert told.startswith(f"{place}: ")
    assert re.findall(r"did you mean '(.*)'\?", told) == ([meant] if meant else [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (changed(("size: 1h", "size:")), "window.size: has no value: write a whole number"),
        (changed(("partitions: 4", "partitions: '4'")), "(given: '4'); write it without quotes"),
        (
            changed(("job: flights", "job: 2013-01-01")),
            "job: Input should be a valid string; YAML reads it as date",
        ),
        (changed(("  miles:", "  on:")), "measures.True: YAML reads this name as bool True: put it in quotes"),
        (FLIGHTS + "slide: 1m\n", "slide: is not a field of a job file there: it belongs below 'window'"),
        (
            FLIGHTS + "format: json\n",
            "format: is not a field of a job file there: it belongs below 'source' or 'output' or",
        ),
        (
            changed(("  size: 1h", "  lateness: 1h")),
            "window.lateness: is not a field of a job file there: it belongs to",
        ),
        (
            changed(("  miles: {measure: sum", "  my-miles: {measure: sums")),
            "measures.my_miles.measure: 'sums' is no",
        ),
        (FLIGHTS + "  shards: 4\n", "measures.shards: Input should be a valid dictionary (given: 4)"),
        (FLIGHTS + "windows: {}\n", "check the spelling: 'window' has a value already, on line 8"),
        (FLIGHTS + "output: {mode:none}\n", "output.mode:none: is not a field of a job file: write a space after"),
        (
            FLIGHTS + "output:\n  mode:none\n",
            "output: Input should be a valid dictionary (given: 'mode:none'); write",
        ),
        (
            FLIGHTS + "lateness: 1h\n",
            "lateness: the key 'lateness' is repeated: line 11 has it already; keep one",
        ),
        (FLIGHTS + "registry: {url: 'ftp://x'}\n", "registry.url: write http:// or https:// and the address"),
        (changed(("kind: tumbling", "kind: session")), "window.kind: session windows are not supported: "),
    ],
)
def test_common_slips_are_told_with_what_to_write(read: Read, text: str, said: str) -> None:
    """Of the traps of YAML, and of fields in the wrong place."""
    assert [told for _, told in read(text) if said in told]


SECRETS = [
    "registry: http://ann:hunter2@x/hunter2@h\n",
    "registry: ann:hunter2@h\n",
    "registry: {url: 'http://ann:hunter2@h', password: hunter2}\n",
    "registri: {url: 'http://ann:hunter2@h'}\n",
    "registry: {auto_register: 'http://ann:hunter2@h'}\n",
    "registry: {'http://ann:hunter2@h': 1}\n",
    "registry: {url: !!int 'http://ann:hunter2@h'}\n",
    "registry: {url: 'http://ann:hunter2@h', url: 'http://ann:hunter2@g'}\n",
    "'http://ann:hunter2@h': {a: 1}\n'http://ann:hunter2@h': {a: 1}\n",
    "lateness: http://ann:hunter2@h\n",
    "max_bytes: 'http://ann:hunter2@h" + "x" * 200 + "'\n",
    "output: http://ann:hunter2@h\n",
    "output: {mode: 'http://ann:hunter2@h'}\n",
]


@pytest.mark.parametrize("text", SECRETS, ids=range(len(SECRETS)))
def test_a_password_is_not_repeated(read: Read, text: str) -> None:
    """Wherever it was written by mistake."""
    told = read(FLIGHTS + text)
    assert told
    assert not [one for _, one in told if re.search(r"\bann\b|hunter2", one)]


def test_values_are_cut_and_printable(read: Read) -> None:
    """A long value is not repeated whole, and no control character reaches the terminal."""
    long = "x" * 5_000
    for text in (
        changed(("size: 1h", f"size: {long}")),
        changed(("topic: flights.events", f"topic: {long}")),
        changed(("key: airport", f"key: {long}")),
        changed(("{measure: avg,", f"{{measure: {long},")),
        FLIGHTS + f"? {long}\n: 1\n",
        FLIGHTS + f"shards: 0x{'f' * 5_000}\n",
        FLIGHTS + f"? 0x{'f' * 5_000}\n: 1\n",
    ):
        assert all(len(told) < 600 for _, told in read(text))
    for text in ('"\\e[31m"', '"a\\nb"', '"\\ud800"'):
        told = read(changed(("key: airport", f"key: {text}"), ("job: flights", f"{text}: 1\njob: flights")))
        assert len(told) == 2
        assert all(one.isprintable() for _, one in told)


def test_the_number_of_mistakes_told_is_bounded(read: Read) -> None:
    """The first ones by line, then how many more there are."""
    told = read(FLIGHTS + "".join(f"x{number}: 1\n" for number in range(MISTAKES_MAX + 12)))
    assert len(told) == MISTAKES_MAX + 1
    assert told[-1] == (None, "… and 12 more mistakes")
    assert [line for line, _ in told[:-1]] == list(range(28, 28 + MISTAKES_MAX))


def test_aliases_and_merges_have_lines_and_do_not_multiply(read: Read) -> None:
    """A value has the line where it is written or merged; lists of lists of aliases stay small."""
    text = "x: &x {kind: tumbling, size: 1 h}\n" + changed(
        ("window:\n  kind: tumbling\n  size: 1h\n", "window: *x\n"),
        ("{measure: avg,", "{<<: &y {measure: avg, of: 1},"),
    )
    told = [(line, one.split(":")[0]) for line, one in read(text)]
    assert told == [(1, "x"), (22, "measures.mean_delay.of")]
    text = text.replace("size: 1 h", "size: 1hh")
    assert (1, "window.size") in [(line, one.split(":")[0]) for line, one in read(text)]
    bomb = "a0: &a0 [1]\n" + "".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]\n" for n in range(30))
    told = read(bomb + changed(("lateness: 48h", "lateness: *a30"), ("job: flights", "job: *a30")))
    assert "lateness: a list is not a duration" in {one.partition(": write")[0] for _, one in told}
    endless = (
        "source: &s {topic: *s, schema: *s, key: *s, event_time: *s, of: *s}\nwindow: &w {<<: *w, size: *s}\n"
    )
    assert read(endless)


def test_a_folder_that_must_not_be_read_holds_no_schema(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python raises for such a folder what it does not raise for one that is not there."""

    def refuse(_path: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_file", refuse)
    assert read(FLIGHTS) == [
        (5, "source.schema: 'flight_event.avsc' is neither beside the job file nor in schemas/")
    ]
    ((line, told),) = read(ORDERS)
    assert (line, told[:54]) == (3, "attached.schema: 'orders_state.avsc' is not beside the")


def test_a_topic_may_have_as_long_a_name_as_in_kafka(read: Read) -> None:
    assert read(changed(("flights.events", "t" * 249))) == []
    ((line, told),) = read(changed(("flights.events", "t" * 250)))
    assert (line, told[:13]) == (4, "source.topic:")


CERTAIN: dict[str, list[tuple[str, str, int, str]]] = {
    "job": [("job: flights", "job: Flights", 2, "job"), ("job: flights\n", "", 2, "job")],
    "source": [
        ("source:", "sorce:", 3, "sorce"),
        ("  topic:", "  topik:", 4, "source.topik"),
        ("flights.events", "[1]", 4, "source.topic"),
        ("key: airport", "key: airports", 6, "source.key"),
        ("scheduled_at", "flight", 7, "source.event_time"),
        ("flight_event", "none", 5, "source.schema"),
    ],
    "window": [
        ("kind: tumbling", "kind: sliding", 8, "window.slide"),
        ("  size: 1h\n", "", 8, "window.size"),
        ("size: 1h", "size: 3600", 10, "window.size"),
        ("size: 1h", "size: 1h\n  size: 1h", 11, "window.size"),
    ],
    "lateness": [("lateness: 48h", "lateness: soon", 11, "lateness")],
    "shards": [("shards: 1024", "shards: 1000", 13, "shards"), ("shards: 1024", "shards: x", 13, "shards")],
    "measures": [
        ("{measure: avg,", "{measure: averge,", 23, "measures.mean_delay.measure"),
        ("  miles:", "  Carriers:", 27, "measures"),
        ("{measure: first, field: flight}", "{measure: first}", 24, "measures.first_flight"),
        ("{measure: last, field: carrier}", "{measure: last, field: carier}", 25, "measures.last_carrier.field"),
    ],
}


@given(st.lists(st.sampled_from(sorted(CERTAIN)), min_size=2, max_size=4, unique=True), st.data())
@settings(max_examples=60, deadline=None)
def test_independent_mistakes_are_all_told(read: Read, sections: list[str], data: st.DataObject) -> None:
    """One in each of some sections: each is told, whatever else is wrong."""
    text, wanted = FLIGHTS, []
    for section in sections:
        old, new, _, place = data.draw(st.sampled_from(CERTAIN[section]))
        text = changed((old, new), text=text)
        wanted.append(place)
    if "source.schema" in wanted:  # without a schema nothing is known of its fields, nor of the measures' columns
        wanted = [one for one in wanted if not one.startswith("measures.last") and one != "measures"]
    told = read(text)
    # With the section's name misspelt its fields keep their names.
    assert set(wanted) <= {one.split(": ")[0] for _, one in told}
    assert all(line is not None and 1 <= line <= text.count("\n") for line, _ in told)


@pytest.mark.parametrize(("old", "new", "line", "place"), [one for section in CERTAIN.values() for one in section])
def test_each_mistake_has_its_line(read: Read, old: str, new: str, line: int, place: str) -> None:
    """The line of the field; of a missing one that of the mapping around it."""
    assert (line, place) in [(at, one.split(": ")[0]) for at, one in read(changed((old, new)))]


LINES = FLIGHTS.splitlines()
VALUES = st.sampled_from(
    ["", "x", "1", "0", "-1", "1h", "true", "[]", "{}", "{a: 1}", "'", "*a", "&a", "~", "1e400", "a: b"]
)
NAMES = st.sampled_from(["sorce", "SIZE", "on", "1", "key", "measure", "retention", "x y", "?", "-", "<<", "a:b"])


@st.composite
def mutations(draw: st.DrawFn) -> str:
    """The flights job with lines dropped, doubled, renamed, retyped or indented otherwise."""
    lines = list(LINES)
    for _ in range(draw(st.integers(1, 4))):
        number = draw(st.integers(0, len(lines) - 1))
        name, colon, value = lines[number].partition(":")
        kind = draw(st.sampled_from(["drop", "double", "rename", "retype", "indent"]))
        indent = name[: len(name) - len(name.lstrip())]
        lines[number : number + 1] = {
            "drop": [],
            "double": [lines[number], lines[draw(st.integers(0, len(lines) - 1))]],
            "rename": [f"{indent}{draw(NAMES)}{colon}{value}"],
            "retype": [f"{name}: {draw(VALUES)}"],
            "indent": [" " * draw(st.integers(0, 4)) + lines[number].lstrip()],
        }[kind]
    return "\n".join(lines) + draw(st.sampled_from(["", "\n"]))


@given(mutations())
@settings(max_examples=300, deadline=None)
def test_any_change_gives_a_job_or_lines_of_the_file(read: Read, text: str) -> None:
    """No other type of error, and no line that the file does not have."""
    for line, told in read(text):
        assert line is None or 1 <= line <= max(1, len(text.splitlines())), told
        assert told.isprintable()
