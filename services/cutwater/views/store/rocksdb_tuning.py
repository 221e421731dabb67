"""RocksDB options of a view, with one bound for all its memory, and RocksDB's own statistics."""

from __future__ import annotations

import errno
import os
import re
from typing import NamedTuple

from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    WriteBufferManager,
)

from cutwater.core.errors import DiskFullError, MachineError

MEMORY_BYTES = 48 << 20
"""The default."""
_NEVER = 1 << 30
_STATISTIC = re.compile(r"^rocksdb\.(\S+) COUNT : (\d+)$", re.MULTILINE)


class Figures(NamedTuple):
    """Statistics of a table at one moment. Counts of bytes written start at zero when the table is opened."""

    memory_max_bytes: int
    memory_bytes: int
    """Blocks, indexes and filters in the cache, write buffers, and what open files hold beside them."""
    buffers_bytes: int
    """The write buffers among `memory_bytes`, including old ones that readers still use."""
    files_bytes: int
    """All sorted files, including old ones that only readers still use."""
    live_bytes: int
    """The files of `files_bytes` that belong to the table's present state."""
    cache_hits: int
    cache_misses: int
    put_bytes: int
    """Written to the table, or loaded into it."""
    logged_bytes: int
    flushed_bytes: int
    compacted_bytes: int

    @property
    def amplification(self) -> float:
        """Bytes written to sorted files for each byte put, without the log; nan before the first put."""
        return (self.flushed_bytes + self.compacted_bytes) / self.put_bytes if self.put_bytes else float("nan")


class Tuning:
    """The options and statistics of one table. A table that is opened again needs a new object."""

    def __init__(self, memory_bytes: int) -> None:
        """`memory_bytes`: for blocks and write buffers together. Long exports may exceed it by a fifth."""
        self._memory_bytes = memory_bytes
        buffers = memory_bytes // 2
        # Write buffers are charged to the cache, so blocks and buffers share one bound. Memory in use stays, even
        # above the cache's capacity, such as old write buffers of a long read. The clock cache keeps to its
        # capacity; the LRU cache has dozens of small parts, which charges of 256 KB fill unevenly.
        cache = Cache.new_hyper_clock_cache(memory_bytes // 8 * 7, 0)
        table = BlockBasedOptions()
        table.set_block_cache(cache)
        table.set_cache_index_and_filter_blocks(True)
        table.set_index_type(BlockBasedIndexType.two_level_index_search())
        table.set_partition_filters(True)
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_block_based_table_factory(table)
        options.set_compression_type(DBCompressionType.lz4())
        options.set_write_buffer_manager(
            WriteBufferManager.new_write_buffer_manager_with_cache(buffers, False, cache)
        )
        options.set_write_buffer_size(buffers // 4)
        options.set_max_background_jobs(2)
        options.set_max_subcompactions(2)
        # A load leaves hundreds of files to compact. By default RocksDB would block all writes until that is done,
        # even the commit of the loaded milestone. One Python thread never writes faster than compaction runs.
        options.set_level_zero_slowdown_writes_trigger(_NEVER)
        options.set_level_zero_stop_writes_trigger(_NEVER)
        options.set_soft_pending_compaction_bytes_limit(0)
        options.set_hard_pending_compaction_bytes_limit(0)
        options.set_max_open_files(256)
        options.set_keep_log_file_num(3)
        options.set_max_log_file_size(4 << 20)
        options.enable_statistics()  # makes a seek a tenth slower: 2 of 20 µs
        self.options = options

    def figures(self, db: Rdict, loaded_bytes: int) -> Figures:
        """Return the statistics; raises rocksdict's error if `db` is closed. `loaded_bytes`: of ingested files."""

        def says(name: str) -> int:
            return int(db.property_int_value(f"rocksdb.{name}") or 0)

        count = {name: int(number) for name, number in _STATISTIC.findall(self.options.get_statistics() or "")}
        return Figures(
            memory_max_bytes=self._memory_bytes,
            memory_bytes=says("block-cache-usage") + says("estimate-table-readers-mem"),
            buffers_bytes=says("size-all-mem-tables"),
            files_bytes=says("total-sst-files-size"),
            live_bytes=says("live-sst-files-size"),
            cache_hits=count.get("block.cache.hit", 0),
            cache_misses=count.get("block.cache.miss", 0),
            put_bytes=count.get("bytes.written", 0) + loaded_bytes,
            logged_bytes=count.get("wal.bytes", 0),
            flushed_bytes=count.get("flush.write.bytes", 0),
            compacted_bytes=count.get("compact.write.bytes", 0),
        )


def failure(text: str, error: Exception) -> MachineError:
    """Return the error to raise for one of rocksdict's or of the system's; rocksdict's carry only a text."""
    return (DiskFullError if os.strerror(errno.ENOSPC) in str(error) else MachineError)(text)


def advice(text: str) -> str:
    if "corrupt" in text.lower():  # checked first: RocksDB's text mentions a "block checksum"
        return "The files are damaged: delete the folder to rebuild the view from a snapshot or the changelog."
    if "lock" in text.lower():
        return "Another process serves from this folder: stop it, or set CUTWATER_DATA_DIR."
    return "Check that the disk has room and that the folder is writable. No applied milestone is lost."
