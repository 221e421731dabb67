"""One RocksDB and its layout."""
