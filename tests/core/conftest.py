"""How properties are tested here: never against the clock, since the machine may be busy."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("cutwater", deadline=None)
settings.load_profile("cutwater")
