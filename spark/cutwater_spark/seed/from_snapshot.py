"""Rows of a snapshot as a seed: lines of text, and the batch that reads them.

    <key, base64> <window start, ms> <window end, ms> <value as on the changelog, base64>

Spark reads text without a connector and without Python on its executors, and lines of any length.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

from cutwater.adapters.hashing import key_bytes_hash
from cutwater.core.errors import MachineError
from cutwater.core.generations.seed_check import Given, SeedRowCounts
from cutwater.core.protocol.changelog_rows import fold, signed
from cutwater.core.protocol.records import Milestone
from cutwater.views.query.pages import Stored
from cutwater_spark.seed.changed_rows import is_kept
from cutwater_spark.seed.from_changelog import body_of, other_windows, write_rows
from cutwater_spark.seed.parent import Seeding


def write_lines(rows: Iterable[Stored], file: Path) -> Given:
    """Write the rows as lines. Raise MachineError if the disk fails."""
    count = digest = 0
    try:
        with file.open("wb", buffering=1 << 20) as out:
            for (key, start_ms, end_ms), value in rows:
                first, last = b2a_base64(key.encode(), newline=False), b2a_base64(value, newline=False)
                line = b"%b %d %d %b" % (first, start_ms, end_ms, last)
                out.write(line + b"\n")
                count += 1
                digest = fold((key_bytes_hash(line),), digest)
    except OSError as error:
        raise MachineError(f"{file}: {error}. Check that the disk has room") from None
    return Given(count, signed(digest))


def write_stored(
    spark: SparkSession, seeding: Seeding, parent: Milestone, lines: str, folder: str
) -> SeedRowCounts:
    """Write the rows of a file of lines as a seed, as `from_changelog.write_seed` does for a changelog."""
    job = seeding.before
    is_seed = f"body is not null and {is_kept(seeding.change, parent)}"
    counted = Observation("cutwater_stored_seed")
    counts = {
        "rows": "count(1)",
        "seeds": f"count_if({is_seed})",
        "digest": "coalesce(bit_xor(xxhash64(line)), 0L)",
        "unreadable": "count_if(body is null)",
        "other_windows": other_windows(job),
    }
    rows = (
        spark.read.text(lines)
        .selectExpr("value as line", "split(value, ' ') as part")
        .selectExpr(
            "line",
            "named_struct('key', decode(unbase64(part[0]), 'UTF-8'), 'window_start', cast(part[1] as bigint), "
            "'window_end', cast(part[2] as bigint)) as at",
            "unbase64(part[3]) as value",
        )
        .selectExpr("line", "at", f"{body_of('value', job)} as body")
        .observe(counted, *(F.expr(f"{sql} as {name}") for name, sql in counts.items()))
    )
    write_rows(spark, rows.where(is_seed), seeding, folder)
    return SeedRowCounts(**counted.get)
