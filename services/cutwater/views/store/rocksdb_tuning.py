"""RocksDB as a view wants it: everything that it holds in memory within one bound, and what it says of itself."""

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
"""Where nobody says otherwise."""
_NEVER = 1 << 30
_STATISTIC = re.compile(r"^rocksdb\.(\S+) COUNT : (\d+)$", re.MULTILINE)


class Figures(NamedTuple):
    """A table's own numbers, of one moment. What was written is counted since it was opened."""

    memory_max_bytes: int
    """The bound."""
    memory_bytes: int
    """Blocks, indexes and filters in the cache, write buffers, and what open files hold besides."""
    buffers_bytes: int
    """Of those the write buffers, the ones that readers still keep included."""
    files_bytes: int
    """All sorted files, those that only readers of an older moment keep included."""
    live_bytes: int
    """Of those the files that the table as it is now consists of."""
    cache_hits: int
    cache_misses: int
    put_bytes: int
    """Written to the table, or loaded into it."""
    logged_bytes: int
    flushed_bytes: int
    compacted_bytes: int

    @property
    def amplification(self) -> float:
        """Bytes that went into sorted files for each byte put, the log not counted; nan before the first."""
        return (self.flushed_bytes + self.compacted_bytes) / self.put_bytes if self.put_bytes else float("nan")


class Tuning:
    """The options of one table, and the numbers that belong to them: a table that is opened again has new ones."""

    def __init__(self, memory_bytes: int) -> None:
        """`memory_bytes`: of blocks and write buffers together; a fifth more while exports keep older moments."""
        self._memory_bytes = memory_bytes
        buffers = memory_bytes // 2
        # Write buffers are charged to the cache: blocks give way to them, and their sum has the one bound.
        # What is in use stays above the cache's capacity, the old write buffers of a long reader for one. The
        # clock cache keeps to it: the LRU one has dozens of small parts, which charges of 256 KB fill unevenly.
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
        # A load leaves hundreds of files to be sorted into each other. By default nothing could be written before
        # that is done, not even the milestone that they are; and one thread of Python never writes faster than it.
        options.set_level_zero_slowdown_writes_trigger(_NEVER)
        options.set_level_zero_stop_writes_trigger(_NEVER)
        options.set_soft_pending_compaction_bytes_limit(0)
        options.set_hard_pending_compaction_bytes_limit(0)
        options.set_max_open_files(256)
        options.set_keep_log_file_num(3)
        options.set_max_log_file_size(4 << 20)
        options.enable_statistics()  # a seek takes a tenth longer: two of its twenty microseconds
        self.options = options

    def figures(self, db: Rdict, loaded_bytes: int) -> Figures:
        """Raises what rocksdict raises where `db` is closed. `loaded_bytes`: of files that it took as they are."""

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
    """What to raise for an error of rocksdict's, or of the system's; all that it has is a text."""
    return (DiskFullError if os.strerror(errno.ENOSPC) in str(error) else MachineError)(text)
