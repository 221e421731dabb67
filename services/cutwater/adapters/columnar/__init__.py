"""Arrow and Parquet."""
