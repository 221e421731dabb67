"""A reader of the output has the values that the view shows, lists and derived values among them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from fastapi import HTTPException

from cutwater.adapters.avro.codec import Codec
from cutwater.client.decoding import OutputDecoder
from cutwater.core.job.job import WINDOW_KEY_SCHEMA, Output
from cutwater.publisher.encoding import encoder_for
from cutwater.rehydrator.http_api import parsing
from cutwater.views.query.presenter import Presenter, plain
from cutwater.views.store import key_layout
from cutwater.views.store.store import Store
from support.views.changelogs import GENERATION
from support.views.measured_job import measured_job, measured_rows

LISTS = {
    "histogram_small",
    "histogram_ratio",
    "histogram_price",
    "quantile_small",
    "quantile_half",
    "quantile_price",
    "top_small",
    "top_label",
}
DERIVED = {"spread", "per_event"}


@pytest.mark.parametrize("written", ["avro", "json"])
def test_each_measure_in_each_format_of_the_output(tmp_path: Path, written: str) -> None:
    job = replace(measured_job(tmp_path)[0], output=Output(format=written))
    store = Store(tmp_path / "v", job, GENERATION)
    stored, expected = measured_rows(job, store, 40)
    store.close()
    encoder, decoder, presenter = encoder_for(job, None), OutputDecoder(job), Presenter(job)
    encoder.begin(7, "update")
    for storage, value in stored.items():
        window = key_layout.parse(storage)
        times = {"window_start": window.start_ms, "window_end": window.end_ms}
        key = Codec(WINDOW_KEY_SCHEMA).encode({"key": window.key, **times})
        found = decoder.change(encoder.value(key, value)).values
        shown = presenter.values(value)
        assert found == ({name: plain(one) for name, one in shown.items()} if written == "json" else shown)
        for name in LISTS | DERIVED:
            assert shown[name] == expected[window][name], name


def test_rows_have_no_order_by_lists(tmp_path: Path) -> None:
    """The ranking says so; by a derived value it is an order as any."""
    job, _ = measured_job(tmp_path)
    assert {one.name for one in job.measures if one.length} == LISTS
    for name in DERIVED:
        assert parsing.measure(name, job.measures) == name
    with pytest.raises(
        HTTPException, match="measure='quantile_small' has lists, by which rows have no order: events"
    ):
        parsing.measure("quantile_small", job.measures)
    with pytest.raises(HTTPException, match="measure='x' is not a measure of the job: events"):
        parsing.measure("x", job.measures)
