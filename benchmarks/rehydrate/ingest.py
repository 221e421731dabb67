"""What RocksDB allows from Python at best: sorted rows, written to a file that is taken in whole."""

from __future__ import annotations

import time
from pathlib import Path

from rocksdict import IngestExternalFileOptions, Options, Rdict, SstFileWriter

from benchmarks.rehydrate.workloads import WINDOWS, Maker
from cutwater.adapters.avro.codec import Codec
from cutwater.core.job.job import WINDOW_KEY_SCHEMA, Job

ROWS = 400_000


def ingest_rate(job: Job, folder: Path) -> float:
    """Rows per second, from the first row put into the file to a right read from the store."""
    maker = Maker(ROWS // WINDOWS, 0, Codec(WINDOW_KEY_SCHEMA).header, Codec(job.state_schema).header)
    rows = sorted(pair for piece in maker.round(0) for pair in zip(piece.keys, piece.values, strict=True))
    options, move = Options(raw_mode=True), IngestExternalFileOptions()
    move.set_move_files(True)
    folder.mkdir(parents=True)
    file, store = SstFileWriter(options), Rdict(str(folder / "store"), options)
    began = time.monotonic()
    file.open(str(folder / "rows.sst"))
    for key, value in rows:
        file[key] = value
    file.finish()
    store.ingest_external_file([str(folder / "rows.sst")], move)
    key, value = rows[len(rows) // 2]
    assert store[key] == value
    rate = len(rows) / (time.monotonic() - began)
    store.close()
    return rate
