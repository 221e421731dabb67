"""The generated pages of docs/, each written from the code that it describes.

python -m docs._generate.pages docs
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from docs._generate.cli_page import cli_page
from docs._generate.json_page import json_page, schema_files
from docs._generate.service_pages import http_page, metrics_page
from docs._generate.tests_page import tests_page
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.job_files.models import (
    AttachedModel,
    AttachedQueryModel,
    ChangelogModel,
    ColumnModel,
    ExplodeModel,
    JobModel,
    MeasureModel,
    ObjectivesModel,
    OutputModel,
    RegistryModel,
    SourceModel,
    TransformModel,
    WindowModel,
)
from cutwater.core.events.rejection import ELEMENTS_MAX
from cutwater.core.job.derived_values import TEXT_MAX
from cutwater.core.job.measure_kinds import KINDS

_VALUES = """\
## What the values are

Nulls are ignored. All values are exact, except sums, averages and variances of floating point numbers, which are
rounded, and three that are estimates:

- `distinct` is an HLL sketch of 4,096 registers: its relative standard error is 1.6 %, so 99 % of the values are
  within 4.2 %. With `sketch: theta` it is exact up to 4,096 different values in a row; above that its error is the
  same.
- `quantile` is a KLL sketch of doubles (k = 200), one for all ranks. Up to some 200 values in a row it is exact.
  Above that the value for rank r has, with a probability of 99 %, a true rank from r - 0.0133 to r + 0.0133;
  ranks 0 and 1 are the exact minimum and maximum. It ignores NaN, and digits of a `long` or `decimal` beyond a
  double's.
- `top` counts with a sketch of frequent values. As long as a row has at most 192 values of the field (768 for 50
  `items`, 1,536 for 100), the counts are exact: their `error` is 0. Above that the true number of events is from
  `count` to `count + error`, and a value that is not listed has no more than the last one's `count + error`; fewer
  than `items` are listed if no others stand out. The error is at most 2.8 % of the row's events (0.7 %, 0.35 %). A
  text of more than 1,024 bytes is not counted: its event is a dead letter. Of equally frequent values the least is
  first.

A `sum` of decimals is a decimal of 38 digits and the field's scale, exact to the last one, without any setting. An
event whose value has more than 28 digits is a dead letter, so that a row has room for 10^9 events. `min`, `max`,
`first`, `last`, `min_by` and `max_by` of decimals have the field's own digits. `top` and `distinct` take none.

`avg` of a decimal, int or long is a double. With a `scale`, as in `{measure: avg, field: price, scale: 4}`, it is
the true quotient as a decimal with so many digits behind the point, rounded once, half away from zero. A scale is
not part of the state: to add, change or remove one, restart the services that read the job file. With
`output.format` avro or confluent that needs a new output, as a change of derived values does.

A theta sketch is a sample of the values, so several rows can be compared: `cutwater distinct` and
[`POST /v1/distinct`](HTTP.md#post-v1distinct) tell how many different values they have together, in common, or
alone, with bounds; `POST /v1/global/distinct` does so over all regions. A sketch has eight bytes for each value,
up to 32 KB, where HLL has up to 4 KB. It is written whole with each change of its row, and takes twice that in
Spark's memory. `sketch` is part of the meaning of a row: to change it, start another job.

Spark draws lots when it makes a KLL sketch smaller. An epoch that is computed again may so write another sketch
of the same events, within the same bound; the milestone proves the one that counts. Readers that merge sketches,
of panes or of regions, draw no lots: all of them get the same value.
"""
_DERIVED = f"""\
## Derived values

A derived value is computed from a row's measures wherever the row is shown: in the API, the output, exports and
`committed()`. It is a double.

```yaml
measures:
  miles: {{measure: sum, field: distance_miles}}
  flights: {{measure: count}}
derived:
  miles_per_flight: round(miles / flights, 1)
```

- An expression has numbers, names of measures and of derived values above it, `+ - * /`, parentheses, and `min`,
  `max`, `coalesce`, `abs` and `round` (half away from zero; a second operand is the number of digits). At most
  {TEXT_MAX} characters.
- It is null if an operand is null or a divisor is 0; `coalesce` is its first operand that is not null.
- Measures of texts, booleans, times and lists are no operands.
- It is not part of the state, so it may change at any time: restart the services that read the job file. Rows of
  the output have the new value from their next change on; `cutwater verify --repair` publishes the others.
- Names are part of the output's schema. With `output.format` avro or confluent, adding, renaming or removing one
  needs a new output: the publisher refuses and says how. With json they may change, too.
- An attached query has none: compute the column in the query.
"""
_KEPT = """\
## Measures that only Spark's state has

```yaml
measures:
  flights: {measure: count}
  planes: {measure: distinct, field: tail_number, kept: state}
derived:
  flights_per_plane: round(flights / planes, 1)
```

With `kept: state` a measure's partials are in Spark's state and its checkpoint only. A row does not have them:
not in the changelog, views, snapshots, API, exports or output. A row has what `derived` computes from the
measure: such a derived value is **stored**. Spark computes it, and it is one double in the row. Here a row has 9
bytes in place of up to 4 KB. `cutwater plan` prints the bytes of each choice, and `cutwater doctor` what is kept
where.

| | `kept: changelog`, the default | `kept: state` | a derived value | a stored value |
|---|---|---|---|---|
| bytes in changelog, view, snapshot | its partials | none | none | 9 |
| bytes in Spark's state | its partials | its partials | none | none |
| seen in API and output | yes | no | yes | yes |
| merged (sliding windows, regions) | yes | no | follows its measures | no: null |
| another expression | | | at any time | is another value: a new generation |
| a new generation | takes it over | does not have it | follows its measures | exact or null, see below |

What cannot be exact is refused, with the line of the job file:

- A measure of `kept: state` needs a derived value that reads it; otherwise nobody would see it.
- Windows must not overlap: readers merge sliding windows of panes.
- At least one measure is kept in the changelog.
- An expression that reads one may have `count`, `sum`, `min`, `max`, `first`, `last`, `min_by`, `max_by` of
  numbers, `avg` without a `scale`, and `distinct`, wherever they are kept. It names no other derived value.
  Other derived values may read a stored one.
- `renamed_from` has no meaning for it.

Spark computes with doubles as readers do, and divides to null by 0. Its `avg` may differ from the readers' in
the last digit.

**A new generation** (`generation start`, `rollback`, `failover`, a canary, a lost checkpoint) starts from rows,
which lack the measure. A stored value is then exact or null, row by row:

- A row that takes no more events keeps its value: that is every closed window.
- A row whose first event comes after the milestone has its value.
- For the other rows, of windows that are open at the milestone, the driver reads their events again from the
  source, up to the milestone's cut. It counts them if the row's number of events is the same; so the job needs a
  `{measure: count}` in the changelog. Otherwise the row's value is null.

No event is read again if more than `CUTWATER_RECOUNT_EVENTS` were needed (10,000,000), if the generation has
another job file or counts late events, if the job has `source.transform`, or after a failover; the driver logs
why. Every row from *window X* on has a value: `cutwater generation start --dry-run` names that window. A canary
and `cutwater replay` do not compare stored values.
"""
_KEYS = """`key` may be a list of at most 8, as in `key: [airport, carrier]`: events are grouped by all of these
columns. A row's key is then a JSON array of their values as texts, `["JFK","UA"]`. Rows of the HTTP API,
`cutwater get`, the output, exports and the clients have each column beside it, in its type. With an empty list,
`key: []`, there is one row for each window. `key: [airport]` is another key than `key: airport`.

Each value has one text, by which a key is shown and asked for:

| type | text |
|---|---|
| string, enum | itself. A UUID that events hold as a string is one, as it is written; see `uuid` below |
| int, long | the number |
| boolean | `true` or `false` |
| date | `2013-01-31`. An event with a day outside the years 1 to 9999 is a dead letter |
| decimal | all digits of the schema's scale: `-1.50`, no exponent, no sign of a zero |
| uuid | lower case with hyphens, of 16 bytes (`fixed`) or of a column with `type: uuid` |

A text in a column of `type: uuid` that is none makes the event a dead letter. Other types are refused: compute a
column. `to_date(at)` makes a date of a time, `cast(fare as decimal(9,2))` a decimal of a double, and `hex(bytes)`
a text of bytes.

An event with a null in one of these columns is a dead letter. With `null_key: group` null is a value like others:
a key is then a JSON array for a single column too, and has null where a column has none, `["JFK",null]`, which
differs from the text `["JFK","null"]`. Ask for it by `cutwater get --key airport=JFK --null carrier` or
`GET /v1/state?airport=JFK&null=carrier`. Types of the key and `null_key` are part of the meaning of a row: to
change them, start another job.

No column of a list has the name of a measure or of a parameter of the API, such as `from`.
"""
_EXPRESSIONS = """A column may be the expression alone: `speed: miles / minutes`. It is a key, an event time or a
measure's field like one of the schema. Expressions are Spark's SQL over the event's fields. They are checked when
the file is read: an unknown field, a wrong type, a function whose value changes from run to run, an aggregate or a
subquery is refused, with its line.

Values inside of a field have a path, in every format ([JSON has bounds](FORMATS.md#json)):

| path | value |
|---|---|
| `customer.id` | of a record; null without a customer |
| `tags['region']` | of a map; null if it has no such name |
| `items[0].sku` | of an array's first element; the event is a dead letter if it has none |
| `get(items, 0).sku` | the same; null if it has none |

A key or event time inside of a field is a column: `columns: {buyer: customer.id}` with `key: buyer`.

Events that `where` leaves out count in no measure and are no dead letters; a metric counts them. `where` comes
first: columns are computed for the other events only. An event for which an expression has an error, such as a
division by zero, is a dead letter. `try_divide`, `try_cast` and their like give null instead, and a null value is
ignored by measures. Both are part of the meaning of a row: to change them, start another job.

Patterns and sizes are constants, and a group in a pattern is repeated possessively (`(ab)*+`): a long text would
overflow the stack. Where Spark is not installed, as in the services' containers, columns need a `type`.
"""
_EXPLODE = f"""Each element of the array is an event, with its own `columns` beside the fields of its record.
Keys and measures may be either; the event time is the record's.

```yaml
source:
  key: sku
  explode:
    array: payload.items
    where: item.count > 0
    columns: {{sku: item.sku, cents: item.count * item.cents}}
```

A record counts as a whole. If one element has no key, an error or another flaw, the record is one dead letter,
which names the element; so a record that is sent again counts no element twice. A record whose array is null or
empty, or of which `where` leaves out every element, is left out. An array has at most {ELEMENTS_MAX:,} elements.
`first`, `last` and ties of `min_by` and `max_by` go by the element's index within a record. The late list has a
record once, with the key of its first element.
"""
_TRANSFORM = """A function of yours adds columns to events, or leaves events out, with Spark's DataFrames: by joins
with tables, regular expressions, native functions. The driver calls it, after `where` and `columns`:

```python
from pyspark.sql import DataFrame


def enrich(events: DataFrame, airports: DataFrame) -> DataFrame:
    known = events.join(airports, events.airport == airports.iata)
    american = known.where("country = 'US'")
    return american.selectExpr("nullif(state, '') as state", "minutes div legs as minutes_each")
```

```yaml
source:
  key: state
  transform:
    function: regions:enrich    # regions.py beside the job file, or an installed module
    columns: {state: string, minutes_each: long}
    tables: {airports: airports.csv}
```

Its first argument has the event's fields and computed columns. Its result needs the columns that the file
declares, of these types; keys, the event time and measures may use them. Other columns of the result are
ignored, and the fields of the event stay what they are.

- An event counts once or not at all. A filter, or an inner join without a partner, leaves it out, as `where`
  does. For an error, such as a division by zero, or a null key it is a dead letter.
- It may have `select`, `withColumn`, `where`, and joins with the tables (`inner`, `left`, `left_semi`,
  `left_anti`), by columns of the events that equal columns of the table. The driver ends with an error if a
  join's columns are not unique in the table: an event would count several times.
- Whatever keeps events, multiplies them, or may give another value when an epoch is repeated is refused from
  Spark's plan before the first epoch: aggregates, `distinct`, `limit`, `orderBy`, windows, joins of streams,
  `explode`, `union`, functions in Python, `rand()`, `current_timestamp()` and their like. For several events
  of one there is `source.explode`.
- A table is CSV in UTF-8 with a header, at most 8 MiB. All its columns are texts, and an empty value is null.
  It is read when the driver starts.
- The function's module and the tables are pinned for a generation: if their contents change, the driver
  refuses to start, because an epoch that is repeated would have other rows. A new generation takes the new
  contents (`cutwater generation start`). Modules that the function's module imports are not compared. Names
  and columns are part of the meaning of a row: to change them, start another job.
- The driver alone calls the function, so executors need neither module nor tables. In containers both are
  beside the job file, in the folder that is mounted ([CONTAINERS.md](CONTAINERS.md)). The module may also be in
  an archive on the driver's path, such as one of `spark-submit --py-files`.
- `cutwater doctor job.yaml` calls it without events, and says what a driver would refuse.
"""
_GENERATED = "Generated from the code by `make fmt`; a test checks it.\n"


def settings_page() -> str:
    rows = [
        f"| `CUTWATER_{name.upper()}` | `{_of(field)}` | {field.description} |"
        for name, field in Settings.model_fields.items()
    ]
    head = "# Settings\n\nEvery process reads its settings from the environment. " + _GENERATED
    return head + "\n| variable | default | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def job_page() -> str:
    parts = ["# Job file\n\nYAML. Durations are a whole number and one of ms, s, m, h, d. " + _GENERATED]
    sections = (
        ("", JobModel),
        ("source", SourceModel),
        ("window", WindowModel),
        ("output", OutputModel),
        ("changelog", ChangelogModel),
        ("registry", RegistryModel),
        ("objectives", ObjectivesModel),
    )
    for title, model in sections:
        parts.append(_table(title or "top level", model))
        if model is SourceModel:
            parts.append(_KEYS)
            parts.append(_table("source.columns: one per name", ColumnModel))
            parts.append(_EXPRESSIONS)
            parts.append(_table("source.explode", ExplodeModel))
            parts.append(_EXPLODE)
            parts.append(_table("source.transform", TransformModel))
            parts.append(_TRANSFORM)
    parts.append(_table("measures: one per name", MeasureModel))
    kinds = "\n".join(f"| `{kind}` | {', '.join(sorted(types))} |" for kind, (types, _) in KINDS.items())
    parts.append(f"## Measures and the types of their fields\n\n| measure | types |\n|---|---|\n{kinds}\n")
    parts += [_VALUES, _DERIVED, _KEPT]
    parts.append(
        "## A query of your own\n\nWith `attached` instead of `source` and `measures`: see "
        "[ATTACH.md](ATTACH.md).\n"
    )
    parts.append(_table("attached: top level", AttachedModel))
    parts.append(_table("attached", AttachedQueryModel))
    return "\n".join(parts)


def _table(title: str, model: Any) -> str:
    rows = []
    for name, field in model.model_fields.items():
        default = "required" if field.is_required() else f"`{_default(field.default)}`"
        rows.append(f"| `{field.alias or name}` | {default} | {field.description or ''} |")
    return f"## {title}\n\n| field | default | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def _of(field: FieldInfo) -> Any:
    return field.get_default(call_default_factory=True, validated_data={})


def _default(value: Any) -> Any:
    return "see below" if isinstance(value, BaseModel) else value


PAGES: dict[str, Callable[[], str]] = {
    "SETTINGS.md": settings_page,
    "JOBFILE.md": job_page,
    "CLI.md": lambda: cli_page(_GENERATED),
    "HTTP.md": lambda: http_page(_GENERATED),
    "JSON.md": lambda: json_page(_GENERATED),
    "METRICS.md": lambda: metrics_page(_GENERATED),
    "TESTS.md": tests_page,
}


def main(folder: Path) -> None:
    for name, page in PAGES.items():
        (folder / name).write_text(page(), encoding="utf-8")
    (folder / "json").mkdir(exist_ok=True)
    for name, text in schema_files().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
