"""Records of other programs on the output: each is refused in words, whatever it holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cutwater.adapters.job_files.loader import load_job
from cutwater.client.decoding import OutputDecoder
from cutwater.core.errors import UsageError
from support.events import counting

ROW = {"sequence": 1, "kind": "update", "key": "a", "window_start": 0, "window_end": 60_000, "count": 1}


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> OutputDecoder:
    folder: Path = tmp_path_factory.mktemp("job")
    (folder / "event.avsc").write_text(counting.SCHEMA)
    (folder / "job.yaml").write_text(counting.job_text("ticks") + "output: {format: json}\n")
    return OutputDecoder(load_job(folder / "job.yaml"))


@pytest.mark.parametrize(
    "value",
    [
        *(None, b"", b"\xff", b"{}", b"[]", b'{"key": "a"}', b"{" * 10_000),
        json.dumps({**ROW, "window_start": None}).encode(),
        json.dumps({**ROW, "window_end": "tomorrow"}).encode(),
        json.dumps({name: one for name, one in ROW.items() if name != "kind"}).encode(),
    ],
)
def test_what_is_no_row_is_named(decoder: OutputDecoder, value: bytes | None) -> None:
    """A `KeyError` named neither the topic's fault nor what to do."""
    with pytest.raises(UsageError, match=r"output|record|number"):
        decoder.change(value)
    with pytest.raises(UsageError):
        decoder.end(value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(
    st.dictionaries(st.sampled_from(sorted(ROW)), st.none() | st.integers(-(10**20), 10**20) | st.text(max_size=3))
)
def test_any_object_is_a_row_or_refused(decoder: OutputDecoder, fields: dict[str, Any]) -> None:
    try:
        change = decoder.change(json.dumps(fields).encode())
    except UsageError:
        return
    assert change.key == fields["key"]
