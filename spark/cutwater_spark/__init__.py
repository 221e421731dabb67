"""The Spark side: the aggregation, the changelog sink and the barriers."""
