"""The decoding of events, which determines an epoch's rows together with offsets and definition.

A changed job file or a new schema in the registry changes it. A repeated epoch must write the same rows, so the
decoding of a started epoch is kept beside the checkpoint.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from cutwater.core.errors import ProtocolError
from cutwater.core.events.formats import WriterSchema
from cutwater.core.events.json_events import LAST
from cutwater.core.job.job import Job

UNBOUNDED_MS = 400_000 * 86_400_000
"""More than the range of accepted event times."""


@dataclass(frozen=True)
class Decoding:
    """The settings that turn the bytes of a source topic into usable events."""

    kind: str
    event_schema: dict[str, Any]
    known: tuple[WriterSchema, ...]
    max_ahead_ms: int
    max_event_bytes: int
    max_behind_ms: int = UNBOUNDED_MS
    """The default is for decodings that were stored before this bound existed."""
    repeated_names: str = LAST
    held_ms: int | None = None
    """Event times from here on jump ahead of all others, and are rejected. None: no bound. The driver sets it."""

    floor_ms: int | None = None
    """Events for windows that end at or below it are late; None: Spark's watermark decides. The driver sets it."""
    cleans: bool = False
    """Whether the query evicts the windows up to the floor."""

    @classmethod
    def of(cls, job: Job, known: tuple[WriterSchema, ...]) -> Decoding:
        return cls(
            job.format.kind,
            job.event_schema,
            known,
            job.max_ahead_ms,
            job.max_event_bytes,
            job.max_behind_ms,
            job.repeated_names,
        )

    @classmethod
    def parse(cls, text: str) -> Decoding:
        """Parse `text`. Raises ProtocolError for other input."""
        try:
            fields = json.loads(text)
            known = tuple(
                WriterSchema(bytes.fromhex(one["header"]), one["schema"], one["name"], one.get("problem", ""))
                for one in fields["known"]
            )
            return cls(**{**fields, "known": known})
        except (ValueError, KeyError, TypeError) as error:
            raise ProtocolError(
                f"not a decoding that a driver has stored beside its checkpoint: {error!r}"
            ) from None

    @property
    def text(self) -> str:
        known = [{**vars(one), "header": one.header.hex()} for one in self.known]
        return json.dumps({**vars(self), "known": known}, sort_keys=True)

    def applied(self, job: Job) -> Job:
        return replace(
            job,
            format=replace(job.format, kind=self.kind),
            event_schema=self.event_schema,
            max_ahead_ms=self.max_ahead_ms,
            max_event_bytes=self.max_event_bytes,
            max_behind_ms=self.max_behind_ms,
            repeated_names=self.repeated_names,
            held_ms=self.held_ms,
        )

    def closing(self, floor_ms: int | None, cleans: bool = False) -> Decoding:
        return replace(self, floor_ms=floor_ms, cleans=cleans)

    def holding(self, held_ms: int | None) -> Decoding:
        return replace(self, held_ms=held_ms)

    def changes(self, new: Decoding) -> list[str]:
        """Return the changes from this decoding to `new`, by the job file's keys; schemas are too long to show."""
        found = [
            f"{name} was {before} and is {after}"
            for name, before, after in (
                ("source.format", self.kind, new.kind),
                ("max_ahead", f"{self.max_ahead_ms} ms", f"{new.max_ahead_ms} ms"),
                ("max_behind", _bound(self.max_behind_ms), _bound(new.max_behind_ms)),
                ("source.repeated_names", self.repeated_names, new.repeated_names),
                ("max_event_bytes", self.max_event_bytes, new.max_event_bytes),
                ("the event time from which events are held", self.held_ms, new.held_ms),
                ("the end of the windows that are closed for good", self.floor_ms, new.floor_ms),
            )
            if before != after
        ]
        if self.event_schema != new.event_schema:
            found.append("source.schema has changed")
        if self.known != new.known:
            before, after = (", ".join(one.name for one in which) or "none" for which in (self.known, new.known))
            found.append(f"the schemas of events were {before} and are {after}")
        return found


def _bound(milliseconds: int) -> str:
    return "no bound" if milliseconds == UNBOUNDED_MS else f"{milliseconds} ms"
