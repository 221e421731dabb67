"""Writers of records: transactions under an id, copies with their headers, topics of single records."""
