"""The records of a store beside its rows: its position, the part that it holds, its lineage, its lower bound."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from cutwater.adapters.avro import protocol_records
from cutwater.core.errors import MachineError
from cutwater.core.protocol.changelog_rows import Writer
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.lineage import Lineage, Span
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.backlog import Entry
from cutwater.core.state.partition_share import Partitions
from cutwater.core.state.selection import Selection
from cutwater.views.store.key_layout import meta
from cutwater.views.store.rocksdb_tuning import advice
from cutwater.views.store.table import RocksTable

IDENTITY, APPLIED, APPLYING = meta("identity"), meta("applied"), meta("applying")
PARTITIONS, LOADED, LOWER = meta("partitions"), meta("loaded"), meta("lower")
PROBE, LINEAGE, ARRIVED = meta("probe"), meta("lineage"), meta("arrived")
_OFFSET_BYTES = 8


def part_in(folder: Path) -> tuple[Partitions | None, Selection | None]:
    """Return the partitions and the selection that the store in `folder` holds; None for all. Raises
    MachineError as `Store` does."""
    return part_of(_read_names(folder, PARTITIONS)[0] or b"null")


def applied_in(folder: Path) -> Entry | None:
    """Return the milestone of the store in `folder`; None if it has none or is incomplete. Raises MachineError
    as `Store` does."""
    applying, data, arrived = _read_names(folder, APPLYING, APPLIED, ARRIVED)
    return None if applying or data is None else unpack_entry(folder, data, arrived)


def _read_names(folder: Path, *names: bytes) -> list[bytes | None]:
    try:
        table = RocksTable(folder)
        try:
            return [table.get(name) for name in names]
        finally:
            table.close()
    except Exception as error:  # rocksdict raises the bare class
        raise MachineError(f"{folder}: opening: {error}. {advice(str(error))}") from None


def pack_part(partitions: Partitions | None, selection: Selection | None) -> bytes:
    """Encode partitions and selection. Versions without selections take one with a selection for another part."""
    held = None if partitions is None else sorted(partitions)
    return json.dumps(held if selection is None else [held, selection.as_object()]).encode()


def part_of(part: bytes) -> tuple[Partitions | None, Selection | None]:
    held, selection = json.loads(part), None
    if isinstance(held, list) and isinstance(held[-1], dict):
        held, selection = held[0], Selection.of_object(held[1])
    return None if held is None else frozenset(held), selection


def describe_part(part: bytes) -> str:
    held, selection = part_of(part)
    partitions = "of all" if held is None else ", ".join(map(str, sorted(held)))
    return partitions if selection is None else f"{partitions} with {selection}"


def pack_entry(entry: Entry) -> bytes:
    return entry.offset.to_bytes(_OFFSET_BYTES, "big") + entry.record


def pack_arrived(offset: int, cut: Cut) -> bytes:
    """Encode the offset of a milestone's arrival and its cut in local offsets; the milestone has the origin's."""
    return json.dumps([offset, [[*place, at] for place, at in cut]]).encode()


def unpack_entry(folder: Path, data: bytes, arrived: bytes | None = None) -> Entry:
    record = protocol_records.decode(data[_OFFSET_BYTES:])
    if not isinstance(record, Milestone):
        raise MachineError(f"{folder}: the position is no milestone. Delete the folder to rebuild the view.")
    entry = Entry(record, data[_OFFSET_BYTES:], int.from_bytes(data[:_OFFSET_BYTES], "big"))
    if arrived is None:
        return entry
    offset, cut = json.loads(arrived)
    here = Cut.of({TopicPartition(topic, partition): at for topic, partition, at in cut})
    return entry._replace(milestone=replace(record, changelog_cut=here, evidence=()), arrived=offset)


def pack_lineage(lineage: Lineage) -> bytes:
    return json.dumps([[one.first, str(one.generation), one.rewinds_to] for one in lineage.spans]).encode()


def lineage_of(data: bytes) -> Lineage:
    return Lineage(tuple(Span(first, Generation.parse(name), to) for first, name, to in json.loads(data)))


def epoch_of(milestone: Milestone) -> str:
    """Return the name of the epoch whose rows a load counts."""
    return Writer(milestone.generation, milestone.attempt, milestone.epoch).header.decode()
