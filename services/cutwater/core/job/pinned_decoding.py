"""How events are read: all that decides, beside offsets and definition, which rows an epoch writes.

A job file may change it, and a registry does when a schema is registered. An epoch that has been begun must be
finished as it was begun, or its repeat would not be one; so it is kept beside the checkpoint.
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
"""More than there is between the first and the last event time that is taken."""


@dataclass(frozen=True)
class Decoding:
    """What turns the bytes of a source topic into usable events."""

    kind: str
    """Of the format."""
    event_schema: dict[str, Any]
    known: tuple[WriterSchema, ...]
    """The schemas that events may be written with."""
    max_ahead_ms: int
    max_event_bytes: int
    max_behind_ms: int = UNBOUNDED_MS
    """By default as in decodings that were kept before there was such a bound."""
    repeated_names: str = LAST
    held_ms: int | None = None
    """Event times from here on jump ahead of all others, and are rejected; None: none are. The driver sets it."""

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
        """From `text`; raises ProtocolError for anything else."""
        try:
            fields = json.loads(text)
            known = tuple(
                WriterSchema(bytes.fromhex(one["header"]), one["schema"], one["name"], one.get("problem", ""))
                for one in fields["known"]
            )
            return cls(**{**fields, "known": known})
        except (ValueError, KeyError, TypeError) as error:
            raise ProtocolError(
                f"not a decoding as the driver keeps it beside its checkpoint: {error!r}"
            ) from None

    @property
    def text(self) -> str:
        known = [{**vars(one), "header": one.header.hex()} for one in self.known]
        return json.dumps({**vars(self), "known": known}, sort_keys=True)

    def applied(self, job: Job) -> Job:
        """The job with events read in this way."""
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

    def holding(self, held_ms: int | None) -> Decoding:
        """The same with another bound."""
        return replace(self, held_ms=held_ms)

    def changes(self, new: Decoding) -> list[str]:
        """What `new` does otherwise, in the job file's words; schemas are too long to show."""
        found = [
            f"{name} was {before} and is {after}"
            for name, before, after in (
                ("source.format", self.kind, new.kind),
                ("max_ahead", f"{self.max_ahead_ms} ms", f"{new.max_ahead_ms} ms"),
                ("max_behind", _bound(self.max_behind_ms), _bound(new.max_behind_ms)),
                ("source.repeated_names", self.repeated_names, new.repeated_names),
                ("max_event_bytes", self.max_event_bytes, new.max_event_bytes),
                ("the event time from which events are held", self.held_ms, new.held_ms),
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
