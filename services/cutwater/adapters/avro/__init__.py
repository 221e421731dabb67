"""fastavro: codec and protocol records."""
