"""Decodes rows and end markers of the output in each format.

A record's first byte identifies its format, so reading continues after a change of the output's format.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import HEADER_BYTES, MARKER, Codec, crc64, protocol_codec
from cutwater.adapters.config.settings import load_settings
from cutwater.adapters.events.registry import registry_at
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.generation_jobs import carried_jobs
from cutwater.client.values import Change
from cutwater.core.errors import UsageError
from cutwater.core.events.formats import CONFLUENT_HEADER_BYTES, confluent_number, is_confluent
from cutwater.core.events.key_columns import shown_values
from cutwater.core.generations.job_change import shown_from
from cutwater.core.generations.seed_change import no_partials
from cutwater.core.job.job import TAKEN_COLUMNS, TOMBSTONE, Job
from cutwater.core.output.position import End
from cutwater.views.query.output_json import end_of, from_iso


class Decoder(Protocol):
    def end(self, value: bytes) -> End:
        """Decode an end marker; raise UsageError for anything else."""

    def change(self, value: bytes) -> Change:
        """Decode a row; raise UsageError for bytes of another job or format."""


UNKNOWN_MAX = 100
"""Sets of names that are remembered as those of no generation."""


class OtherRows:
    """Rows of generations with another job file, shown as the reader's own job file says.

    A measure that such a row does not have is as of a window without events.
    """

    def __init__(self, job: Job, known: Callable[[], Sequence[Job]]) -> None:
        """`known`: returns the other jobs; called when a row is not of `job`."""
        self._job, self._known = job, known
        self._by_header: dict[bytes, tuple[Codec, Job]] = {}
        self._by_names: dict[frozenset[str], Job] = {}
        self._unknown: set[frozenset[str]] = set()
        self._named: dict[str, dict[str, str | None]] = {}

    def codec(self, header: bytes) -> tuple[Codec, Job] | None:
        """Return codec and job of the rows with this header; None if no generation is known to write it."""
        if header not in self._by_header:
            self._look()
        return self._by_header.get(header)

    def job(self, names: frozenset[str]) -> Job | None:
        """Return the job whose rows have these names; None if no generation is known to have them. That is asked
        once: a generation is claimed before it writes a row."""
        if names not in self._by_names and names not in self._unknown:
            self._look()
            if len(self._unknown) >= UNKNOWN_MAX:
                self._unknown.clear()
            self._unknown |= {names} - self._by_names.keys()
        return self._by_names.get(names)

    def shown(self, change: Change, of: Job) -> Change:
        empty = {one.name: one.present(no_partials(one)) if one.partials else None for one in self._job.measures}
        names = self._names(of)
        if change.kind == TOMBSTONE:
            return replace(change, values=dict.fromkeys(names))
        values = {one: empty[one] if name is None else change.values[name] for one, name in names.items()}
        return replace(change, values=values)

    def _names(self, of: Job) -> dict[str, str | None]:
        """Return for each measure of the reader its name in a row of `of`; None if that does not have it.

        A measure that was renamed more than once is found by the job files between the two.
        """
        if of.fingerprint not in self._named:
            names = shown_from(of, self._job)
            between = [(self._job, {name: name for name, found in names.items() if found is None})]
            seen = {self._job.fingerprint, of.fingerprint}
            for job, called in between:  # grows while it is read, once for each job file
                names.update(_found(called, shown_from(of, job)))
                for _, other in self._by_header.values():
                    there = _found(called, shown_from(other, job)) if other.fingerprint not in seen else {}
                    if there:
                        seen.add(other.fingerprint)
                        between.append((other, there))
            self._named[of.fingerprint] = names
        return self._named[of.fingerprint]

    def _look(self) -> None:
        for one in self._known():
            codec = Codec(one.output_schema)
            self._by_header.setdefault(codec.header, (codec, one))
            self._by_names.setdefault(_names_of(one), one)


def _found(called: Mapping[str, str], there: Mapping[str, str | None]) -> dict[str, str]:
    """Return those of the names that a job has, as it calls them. `called`: the names in the job before."""
    return {name: found for name, one in called.items() if (found := there[one]) is not None}


def no_others() -> Sequence[Job]:
    return ()


class AvroDecoder:
    def __init__(self, job: Job, others: OtherRows | None = None) -> None:
        self._codec, self._job = Codec(job.output_schema), job
        self._others = others or OtherRows(job, no_others)

    def end(self, value: bytes) -> End:
        record = protocol_records.decode(value)
        if not isinstance(record, End):
            raise UsageError(f"the output contains a {type(record).__name__} in the place of an end marker")
        return record

    def change(self, value: bytes) -> Change:
        if not value.startswith(self._codec.header) and (found := self._others.codec(value[:HEADER_BYTES])):
            codec, of = found
            return self._others.shown(_change(of, codec.decode(value), protocol_records.millis), of)
        return _change(self._job, self._codec.decode(value), protocol_records.millis)


_BEFORE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
"""The strings that earlier versions wrote for non-finite floats."""


class JsonDecoder:
    def __init__(self, job: Job, others: OtherRows | None = None) -> None:
        self._job = job
        self._names = _names_of(job)
        self._others = others or OtherRows(job, no_others)
        self._floats = [one.name for one in job.measures if one.output in ("float", "double")]

    def end(self, value: bytes) -> End:
        return end_of(self._job.name, _object(value))

    def change(self, value: bytes) -> Change:
        fields = _object(value)
        try:
            return self._change(fields)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UsageError(
                f"a record of the output is no row of this job: {value[:200]!r} ({error!r}). Check that the job "
                "file is the publisher's, and find out which program wrote it"
            ) from None

    def _change(self, fields: dict[str, Any]) -> Change:
        for name in self._floats:
            if isinstance(fields.get(name), str):
                fields[name] = _BEFORE.get(fields[name], fields[name])
        names = frozenset(fields) - TAKEN_COLUMNS
        if names != self._names and (of := self._others.job(names)):
            return self._others.shown(_change(of, fields, from_iso), of)
        # Of a job file with other derived values, which are no part of a generation: it may lack some.
        return _change(self._job, {**dict.fromkeys(one.name for one in self._job.measures), **fields}, from_iso)


class ConfluentDecoder:
    """Looks up each schema number once, with `schema_of`. The schema must be that of a row or an end marker."""

    def __init__(
        self, job: Job, schema_of: Callable[[int], dict[str, Any]], others: OtherRows | None = None
    ) -> None:
        self._rows, self._ends = Codec(job.output_schema), protocol_codec("end")
        self._others = others or OtherRows(job, no_others)
        self._avro = AvroDecoder(job, self._others)
        self._schema_of = schema_of
        self._known: dict[int, Codec] = {}

    def end(self, value: bytes) -> End:
        return self._avro.end(self._single_object(value, self._ends))

    def change(self, value: bytes) -> Change:
        return self._avro.change(self._single_object(value, self._rows))

    def _single_object(self, value: bytes, wanted: Codec) -> bytes:
        number = confluent_number(value)
        if number not in self._known:
            self._known[number] = self._codec(number)
        found = self._known[number]
        if (found is self._ends) is not (wanted is self._ends):
            raise UsageError(f"the output contains a record of number {number} in the place of {_name(wanted)}")
        return found.header + value[CONFLUENT_HEADER_BYTES:]

    def _codec(self, number: int) -> Codec:
        header = MARKER + crc64(self._schema_of(number))
        for codec in (self._rows, self._ends):
            if codec.header == header:
                return codec
        if found := self._others.codec(header):
            return found[0]
        raise UsageError(
            f"number {number} on the output is schema {header[len(MARKER) :].hex()}, neither a row of this job "
            "nor an end marker. Check that the job file and the registry are the publisher's"
        )


class OutputDecoder:
    """Decodes records of every format; the first byte identifies it."""

    def __init__(self, job: Job, cluster: Cluster | None = None) -> None:
        """`cluster`: where to find the job files of other generations; None: rows are of `job` only."""
        self._job, self._cluster = job, cluster
        others = OtherRows(job, self._carried)
        self._single, self._json = AvroDecoder(job, others), JsonDecoder(job, others)
        self._confluent = ConfluentDecoder(job, self._ask, others)

    def _carried(self) -> Sequence[Job]:
        if self._cluster is None:
            return ()
        try:
            return carried_jobs(self._cluster, self._job.name)
        except UsageError:
            return ()  # no topic of candidates, or no right to read it

    def end(self, value: bytes | None) -> End:
        """Decode an end marker. Raise UsageError for other bytes or none, UnavailableError if the registry is
        away."""
        held = _held(value)
        return self._of(held).end(held)

    def change(self, value: bytes | None) -> Change:
        """Decode a row; raises as `end` does."""
        held = _held(value)
        return self._of(held).change(held)

    def _of(self, value: bytes) -> Decoder:
        if value[:1] == MARKER[:1]:
            return self._single
        return self._confluent if is_confluent(value) else self._json

    def _ask(self, number: int) -> dict[str, Any]:
        registry = registry_at(self._job, load_settings())
        with registry:
            return registry.schema(number)


def _held(value: bytes | None) -> bytes:
    if value is None:
        raise UsageError(
            "a record of the output has no value: the publisher writes none, find out which program did"
        )
    return value


def _name(codec: Codec) -> str:
    return str(codec.schema["name"])


def _names_of(job: Job) -> frozenset[str]:
    """Return the names that a job's rows have in JSON, beside those that all rows have."""
    return frozenset((*(one.name for one in job.measures), *(one.name for one in job.key_columns or ())))


def _change(job: Job, fields: dict[str, Any], millis: Any) -> Change:
    # A tombstone may have the key of a generation before, which only its own columns tell.
    columns = shown_values(fields, job.key_columns or ())
    columns = job.key_values(fields["key"]) if columns is None else columns
    others = TAKEN_COLUMNS | columns.keys() if columns else TAKEN_COLUMNS
    values = {name: value for name, value in fields.items() if name not in others}
    start, end = millis(fields["window_start"]), millis(fields["window_end"])
    return Change(fields["key"], start, end, fields["kind"], values, columns)


def _object(value: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(value)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise UsageError(
            f"a record of the output is not JSON: {value[:200]!r}. Check that the job file is the publisher's"
        )
    return fields
